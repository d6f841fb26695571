// Neighbours: cuts texts into words between two characters that are neighbours in no token.

#pragma once

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "merges.h"
#include "text.h"

namespace hf_sgpe {

class Neighbours {
 public:
  // `pairs`: the code points that are neighbours in any token.
  explicit Neighbours(const std::vector<std::pair<uint32_t, uint32_t>>& pairs) : apart_(kAscii * kAscii, 1) {
    for (const auto& [left, right] : pairs) {
      if (std::max(left, right) >= kCodePoints) throw std::invalid_argument("a neighbour is not a code point");
      if (std::max(left, right) < kAscii) apart_[left * kAscii + right] = 0;
      else pairs_.add(static_cast<Id>(left), static_cast<Id>(right));
    }
  }

  // Calls emit(word, size) for each word of a well-formed text.
  template <class Emit>
  void words(const uint8_t* text, size_t size, Emit&& emit) const {
    if (!size) return;
    const uint8_t *const end = text + size, *start = text, *p = text;
    uint32_t before = decode(p);
    for (const uint8_t* block = text; block < end; block = p) {
      // The places where words begin are bits, because a branch at each character would often be mispredicted.
      const uint8_t* const block_end = end - block > 64 ? block + 64 : end;
      uint64_t starts = 0;
      while (p < block_end) {
        const auto place = static_cast<size_t>(p - block);
        if (block_end - p >= 8 && before < kAscii && !(load8(p) & 0x8080808080808080u)) {
          uint64_t eight = 0;
          for (int i = 0; i < 8; ++i) {
            eight |= static_cast<uint64_t>(apart_[before * kAscii + p[i]]) << i;
            before = p[i];
          }
          starts |= eight << place;
          p += 8;
        } else {
          const uint32_t point = decode(p);
          starts |= static_cast<uint64_t>(are_apart(before, point)) << place;
          before = point;
        }
      }
      for (; starts; starts &= starts - 1) {
        const uint8_t* const next = block + std::countr_zero(starts);
        emit(start, static_cast<size_t>(next - start));
        start = next;
      }
    }
    emit(start, static_cast<size_t>(end - start));
  }

 private:
  static constexpr uint32_t kAscii = 0x80;

  HF_SGPE_INLINE bool are_apart(uint32_t left, uint32_t right) const {
    if ((left | right) < kAscii) return apart_[left * kAscii + right];
    return pairs_.find(static_cast<Id>(left), static_cast<Id>(right)) == MergeTable::kNone;
  }

  std::vector<uint8_t> apart_;  // of two ASCII characters
  MergeTable pairs_;            // of others
};

}  // namespace hf_sgpe
