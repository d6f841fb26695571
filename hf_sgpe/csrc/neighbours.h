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
  // `known`: the code points with a token. `keeps_unknown`: whether no text is cut between two others.
  explicit Neighbours(const std::vector<uint32_t>& known = {}, bool keeps_unknown = false)
      : apart_(kRows * kRow, 1), known_(keeps_unknown ? kCodePoints : 0) {
    for (const uint32_t point : known) {
      if (point >= kCodePoints) throw std::invalid_argument("a neighbour is not a code point");
      if (keeps_unknown) known_[point] = true;
    }
    for (uint32_t left = 0; keeps_unknown && left < kRows; ++left)
      for (uint32_t right = left / kRow * kRow; right < left / kRow * kRow + kRow; ++right)
        apart_[place_of(left, right)] = known_[left] || known_[right];
  }

  // Adds two code points that are neighbours in a token.
  void add(uint32_t left, uint32_t right) {
    if (std::max(left, right) >= kCodePoints) throw std::invalid_argument("a neighbour is not a code point");
    const Id first = static_cast<Id>(left), second = static_cast<Id>(right);
    if (in_rows(left, right)) apart_[place_of(left, right)] = 0;
    else if (pairs_.find(first, second) == MergeTable::kNone) pairs_.add(first, second);
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
        if (block_end - p >= 8 && before < kRow && !(load8(p) & 0x8080808080808080u)) {
          uint64_t eight = 0;
          for (int i = 0; i < 8; ++i) {
            eight |= static_cast<uint64_t>(apart_[place_of(before, p[i])]) << i;
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
  // Two characters of the same 128 code points share a row with a flag for each right one, except Chinese characters and those
  // after them, whose rows would be long and mostly empty.
  static constexpr uint32_t kRow = 128, kRows = 0x3100;
  static HF_SGPE_INLINE bool in_rows(uint32_t left, uint32_t right) { return left < kRows && (left ^ right) < kRow; }
  static HF_SGPE_INLINE size_t place_of(uint32_t left, uint32_t right) { return left * kRow + right % kRow; }

  HF_SGPE_INLINE bool are_apart(uint32_t left, uint32_t right) const {
    if (in_rows(left, right)) return apart_[place_of(left, right)];
    if (!known_.empty() && !known_[left] && !known_[right]) return false;
    return pairs_.find(static_cast<Id>(left), static_cast<Id>(right)) == MergeTable::kNone;
  }

  std::vector<uint8_t> apart_;  // by row
  std::vector<bool> known_;     // by code point; empty unless unknown ones are kept together
  MergeTable pairs_;            // of characters that share no row
};

}  // namespace hf_sgpe
