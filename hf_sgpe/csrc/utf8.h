// to_utf8: characters of one, two or four bytes each → UTF-8, and whether the text is plain.

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
  bool plain;  // without surrogates and, if checked, unchanged by NFC; a checked text that is not plain has no further UTF-8
};

// The processor prefetches what follows in the same page of memory, so the next page is prefetched by instructions.
constexpr size_t kAhead = 4096;

// The number of bytes that may be written after the end of the UTF-8.
constexpr size_t kUtf8Slack = 32;

// Whether the characters first to last - 1 are plain. `role_before`: the role of the character before them.
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

// Appends the characters one by one, from `first` on.
template <class Character>
HF_SGPE_INLINE void append(const Character* text, size_t first, size_t last, bool check_nfc, unsigned& role_before,
                           Converted& to) {
  for (size_t i = first; i < last; ++i) {
    to.end = encode(text[i], to.end);
    to.plain &= are_plain(text, i, i + 1, check_nfc, role_before);
    if (check_nfc && !to.plain) return;
  }
}

template <class Character>
Converted to_utf8_portably(const Character* text, size_t n, uint8_t* out, bool check_nfc) {
  Converted to{out, true};
  unsigned role_before = NfcTable::kAtStart;
  append(text, 0, n, check_nfc, role_before, to);
  return to;
}

#if HF_SGPE_AVX2 || HF_SGPE_NEON
// For the lengths of four characters, two bits each: the bytes to keep of three for each character.
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
#endif

#if HF_SGPE_AVX2
template <class Character>
HF_SGPE_TARGET_AVX2 Converted to_utf8_by_vectors(const Character* text, size_t n, uint8_t* out, bool check_nfc) {
  Converted to{out, true};
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
    // In most texts, most characters are ASCII in two bytes each.
    if constexpr (sizeof(Character) == 2) {
      for (; i + 32 <= n; i += 32, to.end += 32) {
        prefetch_line(reinterpret_cast<const uint8_t*>(text + i) + kAhead);
        const __m256i low = load(text + i), high = load(text + i + 16);
        if (!_mm256_testz_si256(_mm256_or_si256(low, high), _mm256_set1_epi16(static_cast<short>(0xFF80)))) break;
        const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(low, high), 0xD8);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to.end), bytes);
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
      std::memcpy(to.end, &low, 4);
      std::memcpy(to.end + 4, &high, 4);
      i += 8;
      to.end += 8;
      if constexpr (sizeof(Character) > 1) role_before = kNfcTable.roles()[text[i - 1]];
      continue;
    }
    if (sizeof(Character) > 2 && !_mm256_testz_si256(points, number(~0xFFFFu))) {
      append(text, i, i + 8, check_nfc, role_before, to);
      i += 8;
      continue;
    }
    to.plain &= are_plain(text, i, i + 8, check_nfc, role_before);
    if (check_nfc && !to.plain) return to;
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
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to.end), _mm_shuffle_epi8(_mm256_castsi256_si128(wide), shuffle(low)));
    to.end += kPacking.sizes[low];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to.end), _mm_shuffle_epi8(_mm256_extracti128_si256(wide, 1), shuffle(high)));
    to.end += kPacking.sizes[high];
    i += 8;
  }
  append(text, i, n, check_nfc, role_before, to);
  return to;
}
#elif HF_SGPE_NEON
template <class Character>
Converted to_utf8_by_vectors(const Character* text, size_t n, uint8_t* out, bool check_nfc) {
  Converted to{out, true};
  unsigned role_before = NfcTable::kAtStart;
  size_t i = 0;
  const uint32_t place_bits[] = {1, 2, 4, 8};
  const uint32x4_t ones = vld1q_u32(place_bits), twos = vshlq_n_u32(ones, 4);
  while (i + 8 <= n) {
    uint32x4_t eight[2];
    if constexpr (sizeof(Character) == 4) {
      eight[0] = vld1q_u32(text + i);
      eight[1] = vld1q_u32(text + i + 4);
    } else {
      uint16x8_t points;
      if constexpr (sizeof(Character) == 1) points = vmovl_u8(vld1_u8(text + i));
      else points = vld1q_u16(text + i);
      eight[0] = vmovl_u16(vget_low_u16(points));
      eight[1] = vmovl_high_u16(points);
    }
    const uint32_t greatest = vmaxvq_u32(vmaxq_u32(eight[0], eight[1]));
    if (greatest < 0x80) {
      vst1_u8(to.end, vmovn_u16(vcombine_u16(vmovn_u32(eight[0]), vmovn_u32(eight[1]))));
      i += 8;
      to.end += 8;
      if constexpr (sizeof(Character) > 1) role_before = kNfcTable.roles()[text[i - 1]];
      continue;
    }
    if (greatest > 0xFFFF) {
      append(text, i, i + 8, check_nfc, role_before, to);
      i += 8;
      continue;
    }
    to.plain &= are_plain(text, i, i + 8, check_nfc, role_before);
    if (check_nfc && !to.plain) return to;
    for (const uint32x4_t points : eight) {
      const uint32x4_t below_80 = vcltq_u32(points, vdupq_n_u32(0x80)), below_800 = vcltq_u32(points, vdupq_n_u32(0x800));
      const uint32x4_t last = vorrq_u32(vandq_u32(points, vdupq_n_u32(0x3F)), vdupq_n_u32(0x80));
      const uint32x4_t middle = vandq_u32(vshrq_n_u32(points, 6), vdupq_n_u32(0x3F));
      const uint32x4_t three = vorrq_u32(vorrq_u32(vshrq_n_u32(points, 12), vshlq_n_u32(middle, 8)),
                                         vorrq_u32(vshlq_n_u32(last, 16), vdupq_n_u32(0x80E0)));
      const uint32x4_t lead = vorrq_u32(vshrq_n_u32(points, 6), vdupq_n_u32(0xC0));
      const uint32x4_t two = vorrq_u32(lead, vshlq_n_u32(last, 8));
      const uint32x4_t wide = vbslq_u32(below_80, points, vbslq_u32(below_800, two, three));
      const uint32_t key = vaddvq_u32(vorrq_u32(vandq_u32(below_80, ones), vandq_u32(below_800, twos)));
      vst1q_u8(to.end, vqtbl1q_u8(vreinterpretq_u8_u32(wide), vld1q_u8(kPacking.shuffles[key])));
      to.end += kPacking.sizes[key];
    }
    i += 8;
  }
  append(text, i, n, check_nfc, role_before, to);
  return to;
}
#endif

// Writes the UTF-8 of `text` to `out`, which has room for kUtf8Slack bytes more.
template <class Character>
Converted to_utf8(const Character* text, size_t n, uint8_t* out, bool check_nfc) {
#if HF_SGPE_AVX2 || HF_SGPE_NEON
  if (kVectors) return to_utf8_by_vectors(text, n, out, check_nfc);
#endif
  return to_utf8_portably(text, n, out, check_nfc);
}

}  // namespace hf_sgpe
