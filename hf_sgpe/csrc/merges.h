// Merging ids as bpe/encoder.py specifies it: MergeTable and Merger. Built with these: UnitTier. Their results: Sequences.

#pragma once

#include <algorithm>
#include <bit>
#include <climits>
#include <functional>
#include <span>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "table.h"

namespace hf_sgpe {

using Id = int32_t;

// Which pairs merge, at which rank, and into which token. A pair and its rank share eight bytes, so that the table of an
// ordinary vocabulary fits into the processor's cache.
class MergeTable {
 public:
  static constexpr int32_t kNone = INT32_MAX;
  static constexpr int64_t kIds = int64_t{1} << 21, kMerges = (int64_t{1} << 22) - 1;

  MergeTable() : slots_(1024, kEmpty), seed_(hash_seed()) {}

  // Appends a merge after all others. Of two merges of the same pair the later one counts.
  void add(Id left, Id right, Id result) {
    const auto fits = [](Id id) { return id >= 0 && id < kIds; };
    if (!fits(left) || !fits(right) || !fits(result) || size() == kMerges)
      throw std::invalid_argument("a table of merges has room for 2**21 ids and 2**22 - 1 merges");
    if (merges_.size() * 2 >= slots_.size()) grow();
    slots_[place(key(left, right))] = key(left, right) << 22 | merges_.size();
    merges_.push_back({left, right, result});
  }

  // The rank of a pair, or kNone.
  HF_SGPE_INLINE int32_t find(Id left, Id right) const {
    const uint64_t slot = slots_[place(key(left, right))];
    return slot == kEmpty ? kNone : static_cast<int32_t>(slot & kMerges);
  }
  HF_SGPE_INLINE void prefetch(Id left, Id right) const { prefetch_line(&slots_[first_place(key(left, right))]); }

  Id result(int32_t rank) const { return merges_[static_cast<size_t>(rank)].result; }
  int32_t size() const { return static_cast<int32_t>(merges_.size()); }

  // How many of the first merges only build parts of one character, none of which a later merge makes again. They may be
  // applied to each character by itself, before all others.
  int32_t within_characters(const std::vector<Id>& byte_ids) const {
    std::unordered_map<Id, std::vector<uint8_t>> parts;
    for (int byte = 0x80; byte < 256; ++byte) parts[byte_ids[byte]] = {static_cast<uint8_t>(byte)};
    int32_t count = 0;
    for (const auto& [left, right, result] : merges_) {
      const auto a = parts.find(left), b = parts.find(right);
      if (a == parts.end() || b == parts.end() || parts.contains(result)) break;
      std::vector<uint8_t> joined = a->second;
      joined.insert(joined.end(), b->second.begin(), b->second.end());
      if (joined.size() > 4 || std::any_of(joined.begin() + 1, joined.end(), [](uint8_t byte) { return byte >= 0xC0; })) break;
      parts[result] = std::move(joined);
      ++count;
    }
    // A token that a later merge makes again could take part in the first merges.
    for (int32_t rank = count; rank < size(); ++rank)
      if (parts.contains(result(rank))) return 0;
    return count;
  }

 private:
  struct Merge {
    Id left, right, result;
  };
  static constexpr uint64_t kEmpty = UINT64_MAX;  // no rank is as great as its last 22 bits

  static HF_SGPE_INLINE uint64_t key(Id left, Id right) { return static_cast<uint64_t>(left) << 21 | static_cast<uint64_t>(right); }
  HF_SGPE_INLINE size_t first_place(uint64_t key) const { return mix(key ^ seed_, 0x9E3779B97F4A7C15u) & (slots_.size() - 1); }

  // The slot of a key, or the empty one where it would go.
  HF_SGPE_INLINE size_t place(uint64_t key) const {
    size_t i = first_place(key);
    while (slots_[i] >> 22 != key && slots_[i] != kEmpty) i = (i + 1) & (slots_.size() - 1);
    return i;
  }

  void grow() {
    std::vector<uint64_t> old(slots_.size() * 2, kEmpty);
    old.swap(slots_);
    for (const uint64_t slot : old)
      if (slot != kEmpty) slots_[place(slot >> 22)] = slot;
  }

  std::vector<uint64_t> slots_;  // a pair of ids of 21 bits each, then a rank of 22
  std::vector<Merge> merges_;    // by rank
  uint64_t seed_;
};

// Applies merges to one word after another, with buffers that it keeps.
class Merger {
 public:
  // Merges `ids` in place and returns how many are left. O(n log n), and O(n²) for short words, for which that is faster.
  size_t merge(Id* ids, size_t n, const MergeTable& table) {
    return n <= kShort ? merge_short(ids, n, table) : merge_long(ids, n, table);
  }

  // The same for n <= kShort, by merges of ranks below `limit` only. Tokens keep their places; the place of a token that is
  // merged into the one before it leaves the set of places.
  static size_t merge_short(Id* ids, size_t n, const MergeTable& table, int32_t limit = MergeTable::kNone) {
    if (n < 2) return n;
    // Rank and place in one number: the smallest is the lowest rank and, of those, the leftmost.
    uint32_t keys[kShort];
    const auto key = [&](size_t left, size_t right) {
      const int32_t rank = table.find(ids[left], ids[right]);
      return rank < limit ? static_cast<uint32_t>(rank) << 6 | static_cast<uint32_t>(left) : UINT32_MAX;
    };
    for (size_t i = 0; i + 1 < n; ++i) table.prefetch(ids[i], ids[i + 1]);
    for (size_t i = 0; i + 1 < n; ++i) keys[i] = key(i, i + 1);
    keys[n - 1] = UINT32_MAX;
    uint64_t places = ~uint64_t{0} >> (64 - n);
    for (;;) {
      uint32_t best = keys[0];
      for (size_t i = 1; i + 1 < n; ++i) best = std::min(best, keys[i]);
      if (best == UINT32_MAX) break;
      const size_t place = best & 63;
      const size_t right = after(places, place);
      ids[place] = table.result(static_cast<int32_t>(best >> 6));
      places &= ~(uint64_t{1} << right);
      keys[right] = UINT32_MAX;
      const size_t next = after(places, place);
      keys[place] = next < 64 ? key(place, next) : UINT32_MAX;
      if (const uint64_t before = places & ((uint64_t{1} << place) - 1)) {
        const size_t previous = static_cast<size_t>(std::bit_width(before)) - 1;
        keys[previous] = key(previous, place);
      }
    }
    size_t kept = 0;
    for (uint64_t left = places; left; left &= left - 1) ids[kept++] = ids[std::countr_zero(left)];
    return kept;
  }

  static constexpr size_t kShort = 64;
  static_assert(MergeTable::kMerges < int64_t{1} << 26);

 private:
  // The first of `places` after one of them; 64 if there is none.
  static HF_SGPE_INLINE size_t after(uint64_t places, size_t place) {
    const uint64_t later = place == 63 ? 0 : places >> (place + 1);
    return later ? place + 1 + static_cast<size_t>(std::countr_zero(later)) : 64;
  }

  size_t merge_long(Id* ids, size_t n, const MergeTable& table) {
    if (n >= INT32_MAX) throw std::length_error("a word of more than 2**31 bytes");
    const auto end = static_cast<int32_t>(n);
    following_.resize(n);
    previous_.resize(n);
    candidates_.clear();
    for (int32_t i = 0; i < end; ++i) following_[i] = i + 1, previous_[i] = i - 1;
    for (int32_t i = 0; i + 1 < end; ++i)
      if (const int32_t rank = table.find(ids[i], ids[i + 1]); rank != MergeTable::kNone) candidates_.push_back({rank, i});
    const auto later = std::greater<Candidate>{};
    std::make_heap(candidates_.begin(), candidates_.end(), later);
    const auto propose = [&](int32_t left, int32_t right) {
      const int32_t rank = table.find(ids[left], ids[right]);
      if (rank == MergeTable::kNone) return;
      candidates_.push_back({rank, left});
      std::push_heap(candidates_.begin(), candidates_.end(), later);
    };
    while (!candidates_.empty()) {
      std::pop_heap(candidates_.begin(), candidates_.end(), later);
      const auto [rank, place] = candidates_.back();
      candidates_.pop_back();
      const int32_t right = following_[place];
      if (ids[place] < 0 || right == end) continue;
      if (table.find(ids[place], ids[right]) != rank) continue;  // a merge beside it has changed the pair since
      ids[place] = table.result(rank);
      ids[right] = -1;
      const int32_t after = following_[place] = following_[right];
      if (after != end) {
        previous_[after] = place;
        propose(place, after);
      }
      if (previous_[place] >= 0) propose(previous_[place], place);
    }
    return static_cast<size_t>(std::remove_if(ids, ids + n, [](Id id) { return id < 0; }) - ids);
  }

  using Candidate = std::pair<int32_t, int32_t>;  // rank, place of the left part
  std::vector<int32_t> following_, previous_;
  std::vector<Candidate> candidates_;
};

// Many sequences of ids, each of which is made when it is asked for: together they may take more memory than all else.
class Sequences {
 public:
  using Make = std::function<void(size_t, std::vector<Id>&)>;

  // `symbols`: no fewer than they have together. `make` fills in the ids of a sequence.
  Sequences(size_t size, size_t symbols, Make make) : size_(size), symbols_(symbols), make_(std::move(make)) {}
  size_t size() const { return size_; }
  size_t symbols() const { return symbols_; }

  // Valid until the next call.
  const std::vector<Id>& operator[](size_t i) {
    make_(i, ids_);
    return ids_;
  }

 private:
  size_t size_, symbols_;
  Make make_;
  std::vector<Id> ids_;
};

// For each unit, the merges that turn its bytes into one token, as bpe/unit_tier.py specifies it.
class UnitTier {
 public:
  void add(const uint8_t* unit, size_t size) {
    ids_.assign(unit, unit + size);
    size_t n = merger_.merge(ids_.data(), ids_.size(), table_);
    while (n > 1) {
      merges_.emplace_back(ids_[0], ids_[1]);
      table_.add(ids_[0], ids_[1], 256 + table_.size());
      n = merger_.merge(ids_.data(), n, table_);
    }
  }

  const std::vector<std::pair<Id, Id>>& merges() const { return merges_; }

 private:
  MergeTable table_;
  Merger merger_;
  std::vector<Id> ids_;
  std::vector<std::pair<Id, Id>> merges_;
};

}  // namespace hf_sgpe
