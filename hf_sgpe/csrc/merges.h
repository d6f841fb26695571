// MergeTable, Merger and UnitTier, which merge ids as bpe/encoder.py specifies, and Sequences of ids.

#pragma once

#include <algorithm>
#include <bit>
#include <climits>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "table.h"

namespace hf_sgpe {

using Id = int32_t;

// Merges: pair → rank and result. The number of a byte token is the byte, and of any other token, 256 plus the rank of the
// first merge that makes it; an encoder of characters has its own numbers. A pair and its rank share eight bytes in one of two
// places (cuckoo hashing), so that a look-up needs no branch.
class MergeTable {
 public:
  static constexpr int32_t kNone = (1 << 22) - 1;
  static constexpr int64_t kMerges = (int64_t{1} << 21) - 512;
  static constexpr Id kNoId = (1 << 21) - 1;  // a token without merges

  MergeTable() : slots_(1024, kEmpty), seed_(hash_seed()) {}

  // Makes room for a number of merges.
  void reserve(size_t merges) {
    if (merges * 2 > slots_.size()) rebuild(std::bit_ceil(merges * 2));
    results_.reserve(merges);
  }

  // Appends a merge. Its result is a new token or the result of an earlier merge. If a pair has several merges, the last one
  // counts.
  void add(Id left, Id right, Id result = -1) {
    const int32_t rank = size();
    if (rank == kMerges) throw std::invalid_argument("a table of merges has room for 2**21 - 512 merges");
    if (result < 0) result = 256 + rank;
    own_results_ = own_results_ && result == 256 + rank;
    results_.push_back(result);
    if (left < 0 || right < 0) return;  // one of the tokens is never made
    if (static_cast<size_t>(rank + 1) * 2 > slots_.size()) rebuild(slots_.size() * 2);
    const uint64_t slot = key(left, right) << 22 | static_cast<uint64_t>(rank);
    for (const size_t place : {first_place(slot >> 22), second_place(slot >> 22)})
      if (slots_[place] >> 22 == slot >> 22) return void(slots_[place] = slot);
    // In rare cases the moves form a cycle without a free place.
    if (const uint64_t homeless = put(slot); homeless != kEmpty) rebuild(slots_.size() * 2, homeless);
  }

  // The rank of a pair, or kNone.
  HF_SGPE_INLINE int32_t find(Id left, Id right) const {
    const uint64_t wanted = key(left, right), hash = mix(wanted ^ seed_, 0x9E3779B97F4A7C15u);
    // Of the pair's slot, only the rank is left, which is the least. GCC makes branches of comparisons, but not of minima.
    const uint64_t first = slots_[hash & mask()] ^ wanted << 22, second = slots_[hash >> 32 & mask()] ^ wanted << 22;
    return static_cast<int32_t>(std::min(std::min(first, second), uint64_t{kNone}));
  }

  void prefetch(Id left, Id right) const {
    const uint64_t hash = mix(key(left, right) ^ seed_, 0x9E3779B97F4A7C15u);
    prefetch_line(&slots_[hash & mask()]), prefetch_line(&slots_[hash >> 32 & mask()]);
  }

  void prefetch_result(int32_t rank) const {
    if (!own_results_) prefetch_line(results_.data() + (rank & -(rank != kNone)));
  }

  HF_SGPE_INLINE Id result(int32_t rank) const { return own_results_ ? 256 + rank : results_[static_cast<size_t>(rank)]; }
  int32_t size() const { return static_cast<int32_t>(results_.size()); }

 private:
  static constexpr uint64_t kEmpty = UINT64_MAX;  // its last 22 bits are kNone

  static HF_SGPE_INLINE uint64_t key(Id left, Id right) {
    return static_cast<uint64_t>(left) << 21 | static_cast<uint64_t>(right);
  }
  HF_SGPE_INLINE size_t mask() const { return slots_.size() - 1; }
  size_t first_place(uint64_t key) const { return mix(key ^ seed_, 0x9E3779B97F4A7C15u) & mask(); }
  size_t second_place(uint64_t key) const { return mix(key ^ seed_, 0x9E3779B97F4A7C15u) >> 32 & mask(); }

  // Puts a slot into one of its places, moves the old slot to its other place, and so on. Returns the slot without a place.
  uint64_t put(uint64_t slot) {
    size_t place = first_place(slot >> 22);
    for (int i = 0; i < 500 && slot != kEmpty; ++i) {
      std::swap(slot, slots_[place]);
      if (slot == kEmpty) break;
      const size_t first = first_place(slot >> 22);
      place = place == first ? second_place(slot >> 22) : first;
    }
    return slot;
  }

  void rebuild(size_t size, uint64_t more = kEmpty) {
    std::vector<uint64_t> old = slots_;
    old.push_back(more);
    for (;; size *= 2) {
      slots_.assign(size, kEmpty);
      if (std::all_of(old.begin(), old.end(), [&](uint64_t slot) { return slot == kEmpty || put(slot) == kEmpty; })) return;
      seed_ = mix(seed_, 0x9E3779B97F4A7C15u);
    }
  }

  std::vector<uint64_t> slots_;  // a pair of ids of 21 bits each, then a rank of 22
  std::vector<Id> results_;      // by rank
  bool own_results_ = true;      // each merge has a different result
  uint64_t seed_;
};

// Applies merges to words, with reusable buffers.
class Merger {
 public:
  // Merges `ids` in place and returns their new number. O(n log n); up to kSome ids a faster method with O(n²).
  size_t merge(Id* ids, size_t n, const MergeTable& table) {
    if (n < 2) return n;
    if (n > kSome) return merge_long(ids, n, table);
    const auto merge_one = [&](auto& strand) {
      strand.ids = ids, strand.n = n;
      merge_together(&strand, 1, table);
      return strand.n;
    };
    Strand<kFew> few;
    return n <= kFew ? merge_one(few) : merge_one(*some());
  }

  // The same for few ids, with only the merges of ranks below `limit`.
  static size_t merge_below(Id* ids, size_t n, const MergeTable& table, int32_t limit) {
    for (;;) {
      int32_t best = limit;
      size_t place = 0;
      for (size_t i = 0; i + 1 < n; ++i)
        if (const int32_t rank = table.find(ids[i], ids[i + 1]); rank < best) best = rank, place = i;
      if (best == limit) return n;
      ids[place] = table.result(best);
      std::copy(ids + place + 2, ids + n--, ids + place + 1);
    }
  }

  // A word of 2 to `most` ids while it is merged. The number of its ids changes in the end. Places are one later than in `ids`,
  // and a token without merges is beyond each end.
  template <size_t most>
  struct Strand {
    Id* ids;
    size_t n;
    size_t previous, place, next;  // places of the last result and of its neighbours, whose pairs are being fetched
    Id token[most + 2];  // by place
    uint16_t before[most + 2], after[most + 2];  // by place: the places of a token's neighbours
    alignas(32) uint32_t keys[(most + 8) / 8 * 8];  // by the place of a pair's left token
  };
  static constexpr size_t kFew = 16, kSome = 1022;  // ids of strands

  // Buffers for kTogether words.
  Strand<kSome>* some() {
    if (!some_) some_.reset(new Strand<kSome>[kTogether]);
    return some_.get();
  }

  // Merges up to kTogether words, of which `ids` and `n` are set, in turns: while pairs of one are fetched, others merge.
  template <size_t most>
  static void merge_together(Strand<most>* strands, size_t count, const MergeTable& table) {
#if HF_SGPE_AVX2
    if (kVectors) return merge_together_by_avx2(strands, count, table);
#endif
    merge_in_turns(strands, count, table);
  }

  static constexpr size_t kTogether = 16;
  static_assert(MergeTable::kNone > MergeTable::kMerges);

 private:
#if HF_SGPE_AVX2
  template <size_t most>
  HF_SGPE_TARGET_AVX2 static void merge_together_by_avx2(Strand<most>* strands, size_t count, const MergeTable& table) {
    merge_in_turns(strands, count, table);
  }
#endif

  // A key has the rank and the place of a pair: the smallest is the leftmost pair of the lowest rank.
  template <size_t most>
  static HF_SGPE_INLINE void merge_in_turns(Strand<most>* strands, size_t count, const MergeTable& table) {
    constexpr int kPlace = 10;  // bits of a place
    constexpr uint32_t none = uint32_t{MergeTable::kNone} << kPlace;
    static_assert(kSome + 1 < 1 << kPlace);
    const auto key = [&](const Strand<most>& strand, size_t left, size_t right) HF_SGPE_INLINE_LAMBDA {
      const int32_t rank = table.find(strand.token[left], strand.token[right]);
      table.prefetch_result(rank);
      return static_cast<uint32_t>(rank) << kPlace | static_cast<uint32_t>(left);
    };
    const auto number_of_keys = [](const Strand<most>& strand) { return most == kFew ? kFew : (strand.n + 7) / 8 * 8; };
    for (Strand<most>* strand = strands; strand < strands + count; ++strand) {
      const size_t n = strand->n;
      std::memcpy(strand->token + 1, strand->ids, n * sizeof(Id));
      strand->token[0] = strand->token[n + 1] = MergeTable::kNoId;
      for (size_t i = 0; i < (most == kFew ? kFew : n) + 2; ++i)
        strand->before[i] = static_cast<uint16_t>(i - 1), strand->after[i] = static_cast<uint16_t>(i + 1);
      strand->keys[0] = none;
      for (size_t i = 1; i < n; ++i) strand->keys[i] = key(*strand, i, i + 1);
      for (size_t i = n; i < number_of_keys(*strand); ++i) strand->keys[i] = none;
      strand->previous = 0, strand->place = 1, strand->next = 2;
    }
    Strand<most>* active[kTogether];
    for (size_t i = 0; i < count; ++i) active[i] = strands + i;
    while (count) {
      for (size_t i = 0; i < count;) {
        Strand<most>& strand = *active[i];
        // The keys of the last result are compared later, because a vector that was just written in parts is read slowly.
        uint32_t best = none;
        for (size_t j = 0, end = number_of_keys(strand); j < end; ++j) best = std::min(best, strand.keys[j]);
        const uint32_t before = key(strand, strand.previous, strand.place), after = key(strand, strand.place, strand.next);
        best = std::min(best, std::min(before, after));
        strand.keys[strand.previous] = before, strand.keys[strand.place] = after;
        if (best >= none) {
          size_t kept = 0;
          for (size_t place = 1; place <= strand.n; place = strand.after[place]) strand.ids[kept++] = strand.token[place];
          strand.n = kept;
          active[i] = active[--count];
          continue;
        }
        const size_t place = best % (1 << kPlace), right = strand.after[place];
        const size_t previous = strand.before[place], next = strand.after[right];
        strand.token[place] = table.result(static_cast<int32_t>(best >> kPlace));
        strand.after[place] = static_cast<uint16_t>(next), strand.before[next] = static_cast<uint16_t>(place);
        strand.keys[previous] = strand.keys[place] = strand.keys[right] = none;
        table.prefetch(strand.token[previous], strand.token[place]);
        table.prefetch(strand.token[place], strand.token[next]);
        strand.previous = previous, strand.place = place, strand.next = next;
        ++i;
      }
    }
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
      if (table.find(ids[place], ids[right]) != rank) continue;  // a neighbouring merge has changed the pair
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
  std::unique_ptr<Strand<kSome>[]> some_;
  std::vector<int32_t> following_, previous_;
  std::vector<Candidate> candidates_;
};

// Many sequences of ids. Each is made on request, because all together may need too much memory.
class Sequences {
 public:
  using Make = std::function<void(size_t, std::vector<Id>&)>;

  // `symbols`: at least the total number of ids. `make`: fills in the ids of a sequence.
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

// The merges that turn the bytes of each unit into one token, as bpe/unit_tier.py specifies.
class UnitTier {
 public:
  void add(const uint8_t* unit, size_t size) {
    ids_.assign(unit, unit + size);
    size_t n = merger_.merge(ids_.data(), ids_.size(), table_);
    while (n > 1) {
      merges_.emplace_back(ids_[0], ids_[1]);
      table_.add(ids_[0], ids_[1]);
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
