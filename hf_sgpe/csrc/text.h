// Text: a view of characters, and its UTF-8, which is a copy only if the text is not ASCII.

#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "utf8.h"

namespace hf_sgpe {

static_assert(std::endian::native == std::endian::little, "the kernels read bytes as little-endian numbers");

inline uint64_t load8(const uint8_t* p) {
  uint64_t value;
  std::memcpy(&value, p, 8);
  return value;
}

// A buffer that grows without clearing the new bytes.
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
  bool plain;  // without surrogates and, if checked, unchanged by NFC
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

// A view of characters of one, two or four bytes each. They must outlive it.
class Text {
 public:
  // `width`: bytes per character. `ascii`: whether all characters are below U+0080.
  Text(const void* characters, size_t length, int width, bool ascii)
      : characters_(characters), length_(length), width_(width), ascii_(ascii) {}

  size_t length() const { return length_; }

  // Calls `function` with a pointer to the characters, of the type for their width.
  template <class Function>
  auto visit(Function&& function) const {
    switch (width_) {
      case 1: return function(static_cast<const uint8_t*>(characters_));
      case 2: return function(static_cast<const uint16_t*>(characters_));
      default: return function(static_cast<const uint32_t*>(characters_));
    }
  }

  // Prefetches the beginning, because the processor itself prefetches only where it has been reading for a while.
  void prefetch() const {
    const auto* const bytes = static_cast<const uint8_t*>(characters_);
    for (size_t i = 0; i < std::min<size_t>(length_ * static_cast<size_t>(width_), 512); i += 64) prefetch_line(bytes + i);
  }

  // The text as UTF-8, in `scratch` unless it is ASCII.
  Utf8 utf8(Scratch& scratch, bool check_nfc) const {
    if (ascii_) return {static_cast<const uint8_t*>(characters_), length_, true};
    uint8_t* const start = scratch.reserve(length_ * (width_ == 1 ? 2 : width_ == 2 ? 3 : 4) + kUtf8Slack);
    const Converted utf8 = visit([&](const auto* characters) { return to_utf8(characters, length_, start, check_nfc); });
    return {start, static_cast<size_t>(utf8.end - start), utf8.plain};
  }

  // Whether it has a character from U+0100 to U+FFFF.
  bool has(uint16_t point) const {
    return width_ != 1 && visit([&](const auto* characters) {
      std::remove_cvref_t<decltype(*characters)> found = 0;  // without a branch, so that compilers use vectors
      for (size_t i = 0; i < length_; ++i) found |= characters[i] == point;
      return found != 0;
    });
  }

  bool has_surrogates() const {
    return width_ != 1 &&
           visit([&](const auto* characters) { return std::any_of(characters, characters + length_, is_surrogate); });
  }

  // Calls emit(start, end) for each span that NFC might change; a text with surrogates is a single span. A span begins with a
  // character that NFC never changes because of earlier characters, and ends before another one, so that each span can be
  // normalized separately.
  template <class Emit>
  void nfc_spans(Emit&& emit) const {
    if (ascii_) return;
    visit([&](const auto* characters) {
      if (has_surrogates()) return emit(size_t{0}, length_);
      const auto touches = [&](size_t i) { return kNfcTable.touches(characters[i]); };
      unsigned role_before = NfcTable::kAtStart;
      for (size_t i = 0; i < length_; ++i) {
        const unsigned role = kNfcTable.roles()[characters[i]];
        const bool doubtful = role & (role_before >> 8 | NfcTable::kAlways);
        role_before = role;
        if (!doubtful || !touches(i) || nfc_stays(characters, i)) continue;
        size_t start = i, end = i + 1;
        while (start > 0 && touches(start)) --start;
        while (end < length_ && touches(end)) ++end;
        emit(start, end);
        i = end - 1;
        role_before = kNfcTable.roles()[characters[i]];
      }
    });
  }

 private:
  const void* characters_;
  size_t length_;
  int width_;
  bool ascii_;
};

// Decodes well-formed UTF-8 into `points`.
inline void decode_all(const uint8_t* data, size_t size, std::vector<uint32_t>& points) {
  points.clear();
  for (const uint8_t* p = data; p < data + size;) points.push_back(decode(p));
}

}  // namespace hf_sgpe
