// to_utf8: characters of one, two or four bytes each → UTF-8, and whether the text is one that needs no more care.

#pragma once

#include <array>
#include <bit>
#include <cstring>

#include "characters.h"

namespace hf_sgpe {

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

struct Converted {
  uint8_t* end;
  bool plain;  // without surrogates and, if that was checked, unchanged by NFC
};

// How many bytes may be written beyond the end of the UTF-8.
constexpr size_t kUtf8Slack = 32;

// Whether the characters from `first` on, of which `role_before` tells what stands before them, are plain.
template <class Character>
HF_SGPE_INLINE bool are_plain(const Character* text, size_t first, size_t last, bool check_nfc, unsigned& role_before) {
  if constexpr (sizeof(Character) == 1) return true;  // Latin-1 has neither surrogates nor characters that NFC touches
  const uint16_t* const roles = kNfcTable.roles();
  unsigned doubts = 0;
  for (size_t i = first; i < last; ++i) {
    const unsigned role = roles[text[i]];
    doubts |= role & (role_before >> 8 | NfcTable::kAlways);
    role_before = role;
  }
  if (!doubts) [[likely]] return true;
  for (size_t i = first; i < last; ++i)
    if (is_surrogate(text[i]) || (check_nfc && kNfcTable.touches(text[i]) && !nfc_stays(text, i))) return false;
  return true;
}

template <class Character>
Converted to_utf8_portably(const Character* text, size_t n, uint8_t* out, bool check_nfc) {
  bool plain = true;
  unsigned role_before = NfcTable::kAtStart;
  for (size_t i = 0; i < n; ++i) {
    out = encode(text[i], out);
    plain &= are_plain(text, i, i + 1, check_nfc, role_before);
  }
  return {out, plain};
}

#if HF_SGPE_AVX2
// For four characters, two bits each that say how long they are: which bytes of three for each to keep.
struct Packing {
  alignas(16) uint8_t shuffles[256][16];
  uint8_t sizes[256];
};
inline constexpr Packing kPacking = [] {
  Packing packing{};
  for (int key = 0; key < 256; ++key) {
    uint8_t n = 0;
    for (int place = 0; place < 4; ++place) {
      const bool below_80 = key >> place & 1, below_800 = key >> (4 + place) & 1;
      for (int byte = 0; byte < 3 - below_80 - below_800; ++byte)
        packing.shuffles[key][n++] = static_cast<uint8_t>(4 * place + byte);
    }
    packing.sizes[key] = n;
  }
  return packing;
}();

template <class Character>
HF_SGPE_TARGET_AVX2 Converted to_utf8_by_avx2(const Character* text, size_t n, uint8_t* out, bool check_nfc) {
  bool plain = true;
  unsigned role_before = NfcTable::kAtStart;
  size_t i = 0;
  const auto number = [&](uint32_t value) HF_SGPE_TARGET_AVX2 { return _mm256_set1_epi32(static_cast<int>(value)); };
  const auto load = [&](const void* from) HF_SGPE_TARGET_AVX2 {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
  };
  const auto shuffle = [&](unsigned key) HF_SGPE_TARGET_AVX2 {
    return _mm_load_si128(reinterpret_cast<const __m128i*>(kPacking.shuffles[key]));
  };
  while (i + 8 <= n) {
    // Most characters of most texts are ASCII, of two bytes each.
    if constexpr (sizeof(Character) == 2) {
      for (; i + 32 <= n; i += 32, out += 32) {
        const __m256i low = load(text + i), high = load(text + i + 16);
        if (!_mm256_testz_si256(_mm256_or_si256(low, high), _mm256_set1_epi16(static_cast<short>(0xFF80)))) break;
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_permute4x64_epi64(_mm256_packus_epi16(low, high), 0xD8));
        role_before = kNfcTable.roles()[text[i + 31]];
      }
      if (i + 8 > n) break;
    }
    __m256i points;
    if constexpr (sizeof(Character) == 1)
      points = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(text + i)));
    else if constexpr (sizeof(Character) == 2)
      points = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(text + i)));
    else
      points = load(text + i);
    if (_mm256_testz_si256(points, number(~0x7Fu))) {
      const __m256i words = _mm256_packus_epi32(points, points);
      const __m256i bytes = _mm256_packus_epi16(words, words);
      const int low = _mm256_extract_epi32(bytes, 0), high = _mm256_extract_epi32(bytes, 4);
      std::memcpy(out, &low, 4);
      std::memcpy(out + 4, &high, 4);
      i += 8;
      out += 8;
      if constexpr (sizeof(Character) > 1) role_before = kNfcTable.roles()[text[i - 1]];
      continue;
    }
    if (sizeof(Character) > 2 && !_mm256_testz_si256(points, number(~0xFFFFu))) {
      for (const size_t last = i + 8; i < last; ++i) {
        out = encode(text[i], out);
        plain &= are_plain(text, i, i + 1, check_nfc, role_before);
      }
      continue;
    }
    plain &= are_plain(text, i, i + 8, check_nfc, role_before);
    const __m256i below_80 = _mm256_cmpgt_epi32(number(0x80), points), below_800 = _mm256_cmpgt_epi32(number(0x800), points);
    const __m256i last = _mm256_or_si256(_mm256_and_si256(points, number(0x3F)), number(0x80));
    const __m256i middle = _mm256_and_si256(_mm256_srli_epi32(points, 6), number(0x3F));
    const __m256i three = _mm256_or_si256(
        _mm256_or_si256(_mm256_srli_epi32(points, 12), _mm256_slli_epi32(middle, 8)),
        _mm256_or_si256(_mm256_slli_epi32(last, 16), number(0x80E0)));
    const __m256i lead = _mm256_or_si256(_mm256_srli_epi32(points, 6), number(0xC0));
    const __m256i two = _mm256_or_si256(lead, _mm256_slli_epi32(last, 8));
    const __m256i wide = _mm256_blendv_epi8(_mm256_blendv_epi8(three, two, below_800), points, below_80);
    const auto ones = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(below_80)));
    const auto twos = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(below_800)));
    const unsigned low = (ones & 15) | (twos & 15) << 4, high = ones >> 4 | (twos & 0xF0);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_shuffle_epi8(_mm256_castsi256_si128(wide), shuffle(low)));
    out += kPacking.sizes[low];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_shuffle_epi8(_mm256_extracti128_si256(wide, 1), shuffle(high)));
    out += kPacking.sizes[high];
    i += 8;
  }
  for (; i < n; ++i) {
    out = encode(text[i], out);
    plain &= are_plain(text, i, i + 1, check_nfc, role_before);
  }
  return {out, plain};
}
#endif

// The UTF-8 of `text`, written to `out`, where there is room for it and kUtf8Slack more.
template <class Character>
Converted to_utf8(const Character* text, size_t n, uint8_t* out, bool check_nfc) {
#if HF_SGPE_AVX2
  if (kHasAvx2) return to_utf8_by_avx2(text, n, out, check_nfc);
#endif
  return to_utf8_portably(text, n, out, check_nfc);
}

}  // namespace hf_sgpe
