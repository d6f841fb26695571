// Text: a view of characters, and the same as UTF-8, copied only where it is not ASCII.

#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "characters.h"

namespace hf_sgpe {

// A buffer whose bytes are not cleared when it grows.
class Scratch {
 public:
  uint8_t* reserve(size_t size) {
    if (size > capacity_) {
      bytes_.reset(new uint8_t[size]);
      capacity_ = size;
    }
    return bytes_.get();
  }
  void shrink(size_t size) {
    if (capacity_ > size) {
      bytes_.reset();
      capacity_ = 0;
    }
  }

 private:
  std::unique_ptr<uint8_t[]> bytes_;
  size_t capacity_ = 0;
};

struct Utf8 {
  const uint8_t* data;
  size_t size;
  bool plain;  // without surrogates and, if that was checked, unchanged by NFC
};

// Decodes one character of well-formed UTF-8 and moves past it.
HF_SGPE_INLINE uint32_t decode(const uint8_t*& p) {
  const uint32_t lead = *p;
  if (lead < 0x80) return ++p, lead;
  if (lead < 0xE0) {
    const uint32_t point = (lead & 0x1F) << 6 | (p[1] & 0x3Fu);
    return p += 2, point;
  }
  if (lead < 0xF0) {
    const uint32_t point = (lead & 0x0F) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    return p += 3, point;
  }
  const uint32_t point = (lead & 0x07) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
  return p += 4, point;
}

HF_SGPE_INLINE uint8_t* encode(uint32_t point, uint8_t* out) {
  if (point < 0x80) {
    *out++ = static_cast<uint8_t>(point);
  } else if (point < 0x800) {
    *out++ = static_cast<uint8_t>(0xC0 | point >> 6);
    *out++ = static_cast<uint8_t>(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    *out++ = static_cast<uint8_t>(0xE0 | point >> 12);
    *out++ = static_cast<uint8_t>(0x80 | (point >> 6 & 0x3F));
    *out++ = static_cast<uint8_t>(0x80 | (point & 0x3F));
  } else {
    *out++ = static_cast<uint8_t>(0xF0 | point >> 18);
    *out++ = static_cast<uint8_t>(0x80 | (point >> 12 & 0x3F));
    *out++ = static_cast<uint8_t>(0x80 | (point >> 6 & 0x3F));
    *out++ = static_cast<uint8_t>(0x80 | (point & 0x3F));
  }
  return out;
}

inline bool is_surrogate(uint32_t point) { return point >= 0xD800 && point < 0xE000; }

// A view of characters that take one, two or four bytes each. They must outlive it.
class Text {
 public:
  // `width`: bytes of each character. `ascii`: whether all of them are below U+0080.
  Text(const void* characters, size_t length, int width, bool ascii)
      : characters_(characters), length_(length), width_(width), ascii_(ascii) {}

  size_t length() const { return length_; }

  // Calls `function` with a pointer to the characters, of the type that has their width.
  template <class Function>
  auto visit(Function&& function) const {
    switch (width_) {
      case 1: return function(static_cast<const uint8_t*>(characters_));
      case 2: return function(static_cast<const uint16_t*>(characters_));
      default: return function(static_cast<const uint32_t*>(characters_));
    }
  }

  // The text as UTF-8, in `scratch` unless it is ASCII.
  Utf8 utf8(Scratch& scratch, bool check_nfc) const {
    if (ascii_) return {static_cast<const uint8_t*>(characters_), length_, true};
    uint8_t* const start = scratch.reserve(length_ * (width_ == 1 ? 2 : width_ == 2 ? 3 : 4));
    bool plain = true;
    const uint8_t* const end = visit([&](const auto* characters) {
      uint8_t* out = start;
      // Latin-1 has neither surrogates nor characters that NFC touches.
      constexpr bool wide = sizeof *characters > 1;
      for (size_t i = 0; i < length_; ++i) {
        const uint32_t point = characters[i];
        out = encode(point, out);
        if (!wide || point < 0x80) continue;
        if (is_surrogate(point) || (check_nfc && kNfcTable.touches(point) && !nfc_stays(characters, i))) plain = false;
      }
      return out;
    });
    return {start, static_cast<size_t>(end - start), plain};
  }

  bool has_surrogates() const {
    return width_ != 1 &&
           visit([&](const auto* characters) { return std::any_of(characters, characters + length_, is_surrogate); });
  }

  // Calls emit(start, end) for each stretch that NFC might change; a text with surrogates is one stretch. It begins with a
  // character that NFC never changes because of what stands before it, and ends before another such character, so each
  // stretch can be normalized by itself.
  template <class Emit>
  void nfc_spans(Emit&& emit) const {
    if (ascii_) return;
    visit([&](const auto* characters) {
      if (has_surrogates()) return emit(size_t{0}, length_);
      size_t start = 0;
      bool same = true;
      for (size_t i = 0; i < length_; ++i) {
        if (kNfcTable.touches(characters[i])) {
          same = same && nfc_stays(characters, i);
        } else {
          if (!same) emit(start, i);
          start = i;
          same = true;
        }
      }
      if (!same) emit(start, length_);
    });
  }

 private:
  const void* characters_;
  size_t length_;
  int width_;
  bool ascii_;
};

// The code points of well-formed UTF-8, put into `points`.
inline void decode_all(const uint8_t* data, size_t size, std::vector<uint32_t>& points) {
  points.clear();
  for (const uint8_t* p = data; p < data + size;) points.push_back(decode(p));
}

}  // namespace hf_sgpe
