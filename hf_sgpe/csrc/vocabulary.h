// Vocabulary: the tokens of a tokenizer with their ids, and its merges, in arrays.

#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "merges.h"
#include "table.h"

namespace hf_sgpe {

// Returns whether a string is UTF-8 without surrogates.
inline bool is_utf8(std::string_view text) {
  const auto *p = reinterpret_cast<const uint8_t*>(text.data()), *const end = p + text.size();
  while (p != end) {
    const uint8_t first = *p++;
    if (first < 0x80) continue;
    const int more = first < 0xC2 ? 0 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : first < 0xF5 ? 3 : 0;
    if (!more || end - p < more) return false;
    uint32_t point = first & (0x3F >> more);
    for (int i = 0; i < more; ++i, ++p) {
      if ((*p & 0xC0) != 0x80) return false;
      point = point << 6 | (*p & 0x3F);
    }
    if (is_surrogate(point) || point >= kCodePoints || point < (more == 2 ? 0x800u : more == 3 ? 0x10000u : 0x80u)) return false;
  }
  return true;
}

class Vocabulary {
 public:
  struct Merge {
    int32_t left, right, result;  // places of tokens
  };
  static constexpr int32_t kNowhere = -1;

  // Appends a token. Returns false if the vocabulary has it already.
  bool add(std::string_view token, Id id) {
    if (size() * 2 >= slots_.size()) grow();
    const uint64_t hash = hash_of(token);
    uint64_t& slot = slots_[slot_of(token, hash)];
    if (slot) return false;
    bytes_.append(token);
    ends_.push_back(bytes_.size());
    ids_.push_back(id);
    slot = (hash & kHash) | size();
    return true;
  }

  // Appends a merge. Returns false if the vocabulary lacks one of its tokens.
  bool add_merge(const Merge& merge) {
    if (merge.left == kNowhere || merge.right == kNowhere || merge.result == kNowhere) return false;
    merges_.push_back(merge);
    return true;
  }
  bool add_merge(int32_t left, int32_t right) {
    if (left == kNowhere || right == kNowhere) return false;
    joined_.assign((*this)[left]).append((*this)[right]);
    return add_merge({left, right, find(joined_)});
  }

  // Returns the place of a token, or kNowhere.
  int32_t find(std::string_view token) const {
    if (slots_.empty()) return kNowhere;
    return static_cast<int32_t>(slots_[slot_of(token, hash_of(token))] & ~kHash) - 1;
  }

  size_t size() const { return ids_.size(); }
  Id id(int32_t place) const { return ids_[static_cast<size_t>(place)]; }
  std::string_view operator[](int32_t place) const {
    const size_t start = place ? ends_[static_cast<size_t>(place) - 1] : 0;
    return std::string_view(bytes_).substr(start, ends_[static_cast<size_t>(place)] - start);
  }
  const std::vector<Merge>& merges() const { return merges_; }

  // Returns the places of all tokens in the order of their ids.
  std::vector<int32_t> places_by_id() const {
    std::vector<int32_t> places(size());
    std::iota(places.begin(), places.end(), 0);
    std::sort(places.begin(), places.end(), [&](int32_t a, int32_t b) { return id(a) < id(b); });
    return places;
  }

 private:
  // A slot has half of a hash, and a place plus one.
  static constexpr uint64_t kHash = UINT64_MAX << 32;

  static uint64_t hash_of(std::string_view token) {
    return hash_bytes(reinterpret_cast<const uint8_t*>(token.data()), token.size(), hash_seed());
  }

  // Returns the slot of a token, or the empty slot where it would be.
  size_t slot_of(std::string_view token, uint64_t hash) const {
    for (size_t i = hash & (slots_.size() - 1);; i = (i + 1) & (slots_.size() - 1)) {
      const uint64_t slot = slots_[i];
      if (!slot || (!((slot ^ hash) & kHash) && (*this)[static_cast<int32_t>(slot & ~kHash) - 1] == token)) return i;
    }
  }

  void grow() {
    slots_.assign(std::max<size_t>(slots_.size() * 2, 1024), 0);
    for (size_t place = 0; place < size(); ++place) {
      const std::string_view token = (*this)[static_cast<int32_t>(place)];
      const uint64_t hash = hash_of(token);
      slots_[slot_of(token, hash)] = (hash & kHash) | (place + 1);
    }
  }

  std::string bytes_;         // of all tokens
  std::vector<size_t> ends_;  // of each token in bytes_
  std::vector<Id> ids_;
  std::vector<uint64_t> slots_;  // a hash table of places
  std::vector<Merge> merges_;
  std::string joined_;
};

}  // namespace hf_sgpe
