// Blocks: bit sets of the places in 64 bytes of UTF-8, one for each character class, so that a whole block is split at once.

#pragma once

#include <array>
#include <bit>

#include "characters.h"
#include "text.h"

namespace hf_sgpe {

// Bit sets of places in 64 bytes. The sets of a character contain each of its bytes.
struct Block {
  uint64_t of[8];                // by Class
  uint64_t blank, quote;         // ' ' and '\''
  uint64_t special;              // '/', or other characters with a special rule in the pattern
  uint64_t wide;                 // bytes of characters that are not ASCII
  uint64_t inside;               // bytes that do not begin a character
  uint64_t script, change;       // characters in words of scripts; the places where the script changes

  void remove(uint64_t places) {
    for (uint64_t& set : of) set &= ~places;
    inside &= ~places;
    script &= ~places;
    change &= ~places;
  }
  uint64_t letters() const { return of[kUpper] | of[kLower] | of[kLetter]; }
};

constexpr size_t kBlock = 64;

// Fills the sets of ASCII characters, and `wide`, of `n` blocks. Other code fills kOther.
using Classify = void (*)(const uint8_t* text, size_t n, Block* blocks);

inline void classify_portably(const uint8_t* text, size_t n, Block* blocks) {
  // The sets of a byte, as bits in the order of `planes`.
  static constexpr auto sets = [] {
    std::array<uint8_t, 256> of{};
    for (int byte = 0; byte < 0x80; ++byte)
      of[byte] = static_cast<uint8_t>((byte >= 'A' && byte <= 'Z') | (byte >= 'a' && byte <= 'z') << 1 |
                                      (byte >= '0' && byte <= '9') << 2 |
                                      (byte == ' ' || byte == '\t' || byte == '\v' || byte == '\f') << 3 |
                                      (byte == '\r' || byte == '\n') << 4 | (byte == ' ') << 5 | (byte == '\'') << 6 |
                                      (byte == '/') << 7);
    return of;
  }();
  for (size_t i = 0; i < n; ++i, text += kBlock) {
    Block block{};
    uint64_t* const planes[] = {&block.of[kUpper],   &block.of[kLower], &block.of[kNumber], &block.of[kSpace],
                                &block.of[kNewline], &block.blank,      &block.quote,       &block.special};
    for (size_t eighth = 0; eighth < 8; ++eighth) {
      uint64_t rows = 0;
      for (size_t j = 0; j < 8; ++j) rows |= static_cast<uint64_t>(sets[text[8 * eighth + j]]) << 8 * j;
      // Transpose: the product gathers one bit of each byte in its topmost byte.
      const auto gathered = [](uint64_t bits) { return (bits & 0x0101010101010101u) * 0x0102040810204080u >> 56; };
      for (int plane = 0; plane < 8; ++plane) *planes[plane] |= gathered(rows >> plane) << 8 * eighth;
      block.wide |= gathered(load8(text + 8 * eighth) >> 7) << 8 * eighth;
    }
    blocks[i] = block;
  }
}

#if HF_SGPE_AVX2
HF_SGPE_TARGET_AVX2 inline void classify_by_avx2(const uint8_t* text, size_t n, Block* blocks) {
  const auto in_range = [&](__m256i bytes, char first, char last) HF_SGPE_TARGET_AVX2 {
    const __m256i from_first = _mm256_sub_epi8(bytes, _mm256_set1_epi8(first));
    return _mm256_cmpeq_epi8(_mm256_min_epu8(from_first, _mm256_set1_epi8(static_cast<char>(last - first))), from_first);
  };
  const auto is = [&](__m256i bytes, char byte) HF_SGPE_TARGET_AVX2 {
    return _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(byte));
  };
  const auto places = [&](__m256i low, __m256i high) HF_SGPE_TARGET_AVX2 {
    return static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_epi8(low))) |
           static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_epi8(high))) << 32;
  };
  for (size_t i = 0; i < n; ++i, text += kBlock) {
    prefetch_line(text + kAhead);
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(text));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(text + 32));
    Block& block = blocks[i];
    block.of[kUpper] = places(in_range(low, 'A', 'Z'), in_range(high, 'A', 'Z'));
    block.of[kLower] = places(in_range(low, 'a', 'z'), in_range(high, 'a', 'z'));
    block.of[kNumber] = places(in_range(low, '0', '9'), in_range(high, '0', '9'));
    block.blank = places(is(low, ' '), is(high, ' '));
    block.of[kNewline] = places(is(low, '\n'), is(high, '\n')) | places(is(low, '\r'), is(high, '\r'));
    block.of[kSpace] = (places(in_range(low, '\t', '\r'), in_range(high, '\t', '\r')) & ~block.of[kNewline]) | block.blank;
    block.quote = places(is(low, '\''), is(high, '\''));
    block.special = places(is(low, '/'), is(high, '/'));
    block.wide = places(low, high);
    block.of[kLetter] = block.of[kMark] = block.inside = block.script = block.change = 0;
  }
}
#elif HF_SGPE_NEON
// The places of the bytes 0xFF among 64 bytes that are 0xFF or 0.
HF_SGPE_INLINE uint64_t places_by_neon(const uint8x16x4_t& bytes) {
  const uint8x16_t bits = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201u));
  const uint8x16_t low = vpaddq_u8(vandq_u8(bytes.val[0], bits), vandq_u8(bytes.val[1], bits));
  const uint8x16_t high = vpaddq_u8(vandq_u8(bytes.val[2], bits), vandq_u8(bytes.val[3], bits));
  const uint8x16_t all = vpaddq_u8(low, high);
  return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(all, all)), 0);
}

inline void classify_by_neon(const uint8_t* text, size_t n, Block* blocks) {
  for (size_t i = 0; i < n; ++i, text += kBlock) {
    const auto places = [text](auto matches) {
      return places_by_neon({matches(vld1q_u8(text)), matches(vld1q_u8(text + 16)), matches(vld1q_u8(text + 32)),
                             matches(vld1q_u8(text + 48))});
    };
    const auto is = [&places](uint8_t byte) {
      return places([byte](uint8x16_t bytes) { return vceqq_u8(bytes, vdupq_n_u8(byte)); });
    };
    const auto in_range = [&places](uint8_t first, uint8_t last) {
      return places([first, last](uint8x16_t bytes) {
        return vcleq_u8(vsubq_u8(bytes, vdupq_n_u8(first)), vdupq_n_u8(static_cast<uint8_t>(last - first)));
      });
    };
    Block& block = blocks[i];
    block.of[kUpper] = in_range('A', 'Z');
    block.of[kLower] = in_range('a', 'z');
    block.of[kNumber] = in_range('0', '9');
    block.blank = is(' ');
    block.of[kNewline] = is('\n') | is('\r');
    block.of[kSpace] = (in_range('\t', '\r') & ~block.of[kNewline]) | block.blank;
    block.quote = is('\'');
    block.special = is('/');
    block.wide = in_range(0x80, 0xFF);
    block.of[kLetter] = block.of[kMark] = block.inside = block.script = block.change = 0;
  }
}
#endif

// The characters of one script among 128 code points whose UTF-8 has three bytes and the same start. `members` is indexed by
// the lower four bits of the last byte; its bits, by the two bits above these and the lowest bit of the second byte.
struct Page {
  uint8_t lead, second;  // the first byte, and the second byte without its lowest bit
  uint8_t script = 0;    // 0: the page has no script, or more than one
  alignas(16) uint8_t members[16] = {};

  void add(uint32_t point) { members[point & 15] |= static_cast<uint8_t>(1u << ((point >> 4 & 3) | (point >> 6 & 1) << 2)); }
};

// The places of the first bytes of the page's characters in a block. Two bytes after the block must be readable.
#if HF_SGPE_AVX2
HF_SGPE_TARGET_AVX2 inline uint64_t members_by_vectors(const uint8_t* text, const Page& page) {
  const __m256i rows = _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(page.members)));
  const __m256i bits = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201u));
  uint64_t places = 0;
  for (int half = 0; half < 2; ++half, text += 32) {
    const auto load = [&](int at) HF_SGPE_TARGET_AVX2 {
      return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(text + at));
    };
    const auto all = [&](int byte) HF_SGPE_TARGET_AVX2 { return _mm256_set1_epi8(static_cast<char>(byte)); };
    const __m256i second = load(1), third = load(2);
    const __m256i row = _mm256_shuffle_epi8(rows, _mm256_and_si256(third, all(15)));
    const __m256i which = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(third, 4), all(3)),
                                          _mm256_slli_epi16(_mm256_and_si256(second, all(1)), 2));
    const __m256i member = _mm256_and_si256(row, _mm256_shuffle_epi8(bits, which));
    const __m256i here = _mm256_and_si256(_mm256_cmpeq_epi8(load(0), all(page.lead)),
                                          _mm256_cmpeq_epi8(_mm256_and_si256(second, all(0xFE)), all(page.second)));
    const __m256i outside = _mm256_cmpeq_epi8(member, _mm256_setzero_si256());
    const auto inside = static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_andnot_si256(outside, here)));
    places |= static_cast<uint64_t>(inside) << 32 * half;
  }
  return places;
}
#elif HF_SGPE_NEON
inline uint64_t members_by_vectors(const uint8_t* text, const Page& page) {
  const uint8x16_t rows = vld1q_u8(page.members), bits = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201u));
  uint8x16x4_t inside;
  for (int quarter = 0; quarter < 4; ++quarter, text += 16) {
    const uint8x16_t second = vld1q_u8(text + 1), third = vld1q_u8(text + 2);
    const uint8x16_t row = vqtbl1q_u8(rows, vandq_u8(third, vdupq_n_u8(15)));
    const uint8x16_t which = vorrq_u8(vandq_u8(vshrq_n_u8(third, 4), vdupq_n_u8(3)),
                                      vshlq_n_u8(vandq_u8(second, vdupq_n_u8(1)), 2));
    const uint8x16_t here = vandq_u8(vceqq_u8(vld1q_u8(text), vdupq_n_u8(page.lead)),
                                     vceqq_u8(vandq_u8(second, vdupq_n_u8(0xFE)), vdupq_n_u8(page.second)));
    inside.val[quarter] = vandq_u8(here, vtstq_u8(row, vqtbl1q_u8(bits, which)));
  }
  return places_by_neon(inside);
}
#else
inline uint64_t members_by_vectors(const uint8_t*, const Page&) { return 0; }
#endif

// The fastest implementation for this machine. All have the same results.
inline const Classify classify = [] {
#if HF_SGPE_AVX2
  if (kVectors) return classify_by_avx2;
#elif HF_SGPE_NEON
  if (kVectors) return classify_by_neon;
#endif
  return classify_portably;
}();

}  // namespace hf_sgpe
