// SpecialTokens: finds special or added tokens in texts.

#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "text.h"

namespace hf_sgpe {

class SpecialTokens {
 public:
  struct Match {
    const uint8_t* start;  // null without a match
    size_t size;
    int32_t id;
  };

  // `tokens`: each with its id.
  explicit SpecialTokens(std::vector<std::pair<std::string, int32_t>> tokens = {}) : tokens_(std::move(tokens)) {
    std::stable_sort(tokens_.begin(), tokens_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
    tokens_.erase(std::unique(tokens_.begin(), tokens_.end(), same), tokens_.end());
    unsigned group = 0;
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const std::string& token = tokens_[i].first;
      if (token.empty()) throw std::invalid_argument("a special or added token must not be empty");
      const auto first = static_cast<uint8_t>(token[0]);
      if (!ranges_[first].second) ranges_[first].first = i, group = group % 8 + 1;
      ranges_[first].second = i + 1;
      const auto bit = static_cast<uint8_t>(1u << (group - 1));
      first_.add(first, bit);
      for (unsigned byte = 0; byte < 256; ++byte)
        if (token.size() == 1 || byte == static_cast<uint8_t>(token[1])) second_.add(byte, bit);
    }
  }

  bool in(const Utf8& text) const { return find(text.data, text.data + text.size).start; }

  // The first match, and the longest at its place.
  Match find(const uint8_t* p, const uint8_t* end) const {
    while (!tokens_.empty() && (p = candidate(p, end)) < end) {
      if (const Match match = at(p, end); match.start) return match;
      ++p;
    }
    return {nullptr, 0, 0};
  }

 private:
  // Groups of bytes, by the lower and the upper half of a byte. A few other bytes may seem to be in a group.
  struct Groups {
    alignas(16) uint8_t low[16] = {}, high[16] = {};
    void add(unsigned byte, uint8_t bit) {
      low[byte & 15] |= bit;
      high[byte >> 4] |= bit;
    }
  };

  // The first place from `p` on where a token may begin, or `end`.
  const uint8_t* candidate(const uint8_t* p, const uint8_t* end) const {
#if HF_SGPE_AVX2
    if (kVectors) p = skip_by_avx2(p, end);
#endif
    while (p < end && !ranges_[*p].second) ++p;
    return p;
  }

#if HF_SGPE_AVX2
  // The first place where the first two bytes of a token may be, or a place near the end.
  HF_SGPE_TARGET_AVX2 const uint8_t* skip_by_avx2(const uint8_t* p, const uint8_t* end) const {
    const auto load = [&](const uint8_t* from) HF_SGPE_TARGET_AVX2 {
      return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    };
    const auto table = [&](const uint8_t* from) HF_SGPE_TARGET_AVX2 {
      return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(from)));
    };
    const __m256i low[] = {table(first_.low), table(second_.low)}, high[] = {table(first_.high), table(second_.high)};
    for (; end - p > 32; p += 32) {
      __m256i groups = _mm256_set1_epi8(-1);
      for (int i = 0; i < 2; ++i) {
        const __m256i bytes = load(p + i), half = _mm256_set1_epi8(15);
        const __m256i lower = _mm256_and_si256(bytes, half), upper = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), half);
        groups = _mm256_and_si256(groups, _mm256_and_si256(_mm256_shuffle_epi8(low[i], lower),
                                                           _mm256_shuffle_epi8(high[i], upper)));
      }
      const __m256i none = _mm256_cmpeq_epi8(groups, _mm256_setzero_si256());
      if (const auto places = ~static_cast<uint32_t>(_mm256_movemask_epi8(none))) return p + std::countr_zero(places);
    }
    return p;
  }
#endif

  // The longest token at `p`: the sorted tokens are narrowed byte by byte.
  Match at(const uint8_t* p, const uint8_t* end) const {
    Match match{nullptr, 0, 0};
    auto low = tokens_.begin() + ranges_[*p].first, high = tokens_.begin() + ranges_[*p].second;
    for (size_t i = 1; low != high; ++i) {
      if (low->first.size() == i) {
        match = {p, i, low->second};
        ++low;
      }
      if (p + i == end) break;
      const auto byte = [i](const auto& token) { return static_cast<uint8_t>(token.first[i]); };
      low = std::partition_point(low, high, [&](const auto& token) { return byte(token) < p[i]; });
      high = std::partition_point(low, high, [&](const auto& token) { return byte(token) == p[i]; });
    }
    return match;
  }

  std::vector<std::pair<std::string, int32_t>> tokens_;  // sorted
  std::array<std::pair<size_t, size_t>, 256> ranges_{};  // of the tokens with a first byte; the end is 0 if there are none
  Groups first_, second_;                                // of the first two bytes of all tokens
};

}  // namespace hf_sgpe
