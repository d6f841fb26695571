// MergeTable, Merger and UnitTier, which merge ids as bpe/encoder.py specifies, and Sequences of ids.

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

// Merges: pair → rank and result. The number of a byte token is the byte, and of any other token, 256 plus the rank of the
// first merge that makes it; an encoder of characters has its own numbers. A pair and its rank share eight bytes in one of two places (cuckoo hashing), so that a look-up
// needs no branch.
class MergeTable {
 public:
  static constexpr int32_t kNone = (INT32_MAX >> 6);
  static constexpr int64_t kMerges = (int64_t{1} << 21) - 512;
  static constexpr Id kNoId = (1 << 21) - 1;  // a token without merges

  MergeTable() : slots_(1024, kEmpty), seed_(hash_seed()) {}

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
    const uint64_t first = slots_[hash & mask()], second = slots_[hash >> 32 & mask()];
    int32_t rank = second >> 22 == wanted ? static_cast<int32_t>(second & kRank) : kNone;
    rank = first >> 22 == wanted ? static_cast<int32_t>(first & kRank) : rank;
    return rank;
  }

  void prefetch_result(int32_t rank) const {
    if (!own_results_ && rank != kNone) prefetch_line(&results_[static_cast<size_t>(rank)]);
  }

  HF_SGPE_INLINE Id result(int32_t rank) const { return own_results_ ? 256 + rank : results_[static_cast<size_t>(rank)]; }
  int32_t size() const { return static_cast<int32_t>(results_.size()); }

 private:
  static constexpr uint64_t kEmpty = UINT64_MAX;  // its last 22 bits are greater than any rank
  static constexpr uint64_t kRank = (1 << 22) - 1;

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
  // Merges `ids` in place and returns their new number. O(n log n); for short words a faster method with O(n²).
  size_t merge(Id* ids, size_t n, const MergeTable& table) {
    return n <= kShort ? merge_short(ids, n, table) : merge_long(ids, n, table);
  }

  // The same for n <= kShort, with only the merges of ranks below `limit`.
  static size_t merge_short(Id* ids, size_t n, const MergeTable& table, int32_t limit = MergeTable::kNone) {
#if HF_SGPE_AVX2
    if (kVectors) return merge_short_by_avx2(ids, n, table, limit);
#endif
    return merge_few(ids, n, table, limit);
  }

  static constexpr size_t kShort = 64;
  static_assert(MergeTable::kNone > MergeTable::kMerges);

 private:
#if HF_SGPE_AVX2
  HF_SGPE_TARGET_AVX2 static size_t merge_short_by_avx2(Id* ids, size_t n, const MergeTable& table, int32_t limit) {
    if (n <= 8) return merge_in_registers<1>(ids, n, table, limit);
    if (n <= 16) return merge_in_registers<2>(ids, n, table, limit);
    return n <= 32 ? merge_in_registers<4>(ids, n, table, limit) : merge_few(ids, n, table, limit);
  }

  // As merge_few, but keys stay in registers, and a token without merges is beyond each end.
  template <int eights>
  HF_SGPE_TARGET_AVX2 static HF_SGPE_INLINE size_t merge_in_registers(Id* ids, size_t n, const MergeTable& table,
                                                                      int32_t limit) {
    if (n < 2) return n;
    constexpr int32_t none = MergeTable::kNone << 6;
    Id padded[8 * eights + 2];
    Id* const token = padded + 1;  // by place
    std::memcpy(token, ids, n * sizeof(Id));
    token[-1] = token[n] = MergeTable::kNoId;
    const auto key = [&](size_t left, size_t right, size_t place) HF_SGPE_TARGET_AVX2 {
      const int32_t rank = table.find(padded[left], padded[right]);
      table.prefetch_result(rank);
      return (rank < limit ? rank << 6 : none) | static_cast<int32_t>(place);
    };
    alignas(32) int32_t first[8 * eights];
    for (size_t i = 0; i + 1 < n; ++i) first[i] = key(i + 1, i + 2, i);
    for (size_t i = n - 1; i < 8 * eights; ++i) first[i] = none;
    __m256i keys[eights], numbers[eights];
    for (int i = 0; i < eights; ++i) {
      keys[i] = _mm256_load_si256(reinterpret_cast<const __m256i*>(first + 8 * i));
      numbers[i] = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(8 * i));
    }
    const auto set = [&](size_t place, int32_t value) HF_SGPE_TARGET_AVX2 {
      const __m256i where = _mm256_set1_epi32(static_cast<int>(place)), what = _mm256_set1_epi32(value);
      for (int i = 0; i < eights; ++i) keys[i] = _mm256_blendv_epi8(keys[i], what, _mm256_cmpeq_epi32(numbers[i], where));
    };
    uint64_t places = ~uint64_t{0} >> (62 - n);  // one place later than in `ids`, with one place beyond each end
    for (;;) {
      __m256i least = keys[0];
      for (int i = 1; i < eights; ++i) least = _mm256_min_epi32(least, keys[i]);
      __m128i four = _mm_min_epi32(_mm256_castsi256_si128(least), _mm256_extracti128_si256(least, 1));
      four = _mm_min_epi32(four, _mm_shuffle_epi32(four, 0x4E));
      four = _mm_min_epi32(four, _mm_shuffle_epi32(four, 0xB1));
      const int32_t best = _mm_cvtsi128_si32(four);
      if (best >= none) break;
      const size_t place = static_cast<size_t>(best & 63) + 1;
      const uint64_t later = places & ~uint64_t{0} << 1 << place;
      const auto right = static_cast<size_t>(std::countr_zero(later));
      const auto next = static_cast<size_t>(std::countr_zero(later & (later - 1)));
      const auto previous = static_cast<size_t>(std::bit_width(places & ((uint64_t{1} << place) - 1))) - 1;
      padded[place] = table.result(best >> 6);
      places &= ~(uint64_t{1} << right);
      set(right - 1, none);
      set(previous - 1, key(previous, place, previous - 1));
      set(place - 1, key(place, next, place - 1));
    }
    size_t kept = 0;
    places &= ~uint64_t{1} & ~(uint64_t{2} << n);
    for (uint64_t left = places; left; left &= left - 1) ids[kept++] = padded[std::countr_zero(left)];
    return kept;
  }
#endif

  // Tokens keep their places. When a token is merged into the one before it, its place leaves the set of places.
  static HF_SGPE_INLINE size_t merge_few(Id* ids, size_t n, const MergeTable& table, int32_t limit) {
    if (n < 2) return n;
    // Rank and place in one number: the smallest is the leftmost pair of the lowest rank. Comparisons are in groups of eight.
    alignas(32) int32_t keys[kShort];
    constexpr int32_t none = MergeTable::kNone << 6;
    const auto key = [&](size_t left, size_t right) HF_SGPE_INLINE_LAMBDA {
      const int32_t rank = table.find(ids[left], ids[right]);
      return (rank < limit ? rank << 6 : none) | static_cast<int32_t>(left);
    };
    const size_t eights = (n + 7) & ~size_t{7};
    for (size_t i = 0; i + 1 < n; ++i) keys[i] = key(i, i + 1);
    for (size_t i = n - 1; i < eights; ++i) keys[i] = none;
    uint64_t places = ~uint64_t{0} >> (64 - n);
    for (;;) {
      int32_t best = none;
      for (size_t eight = 0; eight < eights; eight += 8)
        for (size_t i = eight; i < eight + 8; ++i) best = keys[i] < best ? keys[i] : best;
      if (best >= none) break;
      const size_t place = best & 63;
      const size_t right = after(places, place);
      ids[place] = table.result(best >> 6);
      places &= ~(uint64_t{1} << right);
      keys[right] = none;
      const size_t next = after(places, place);
      keys[place] = next < 64 ? key(place, next) : none;
      if (const uint64_t before = places & ((uint64_t{1} << place) - 1)) {
        const size_t previous = static_cast<size_t>(std::bit_width(before)) - 1;
        keys[previous] = key(previous, place);
      }
    }
    size_t kept = 0;
    for (uint64_t left = places; left; left &= left - 1) ids[kept++] = ids[std::countr_zero(left)];
    return kept;
  }

  // The next of `places` after `place`; 64 if there is none.
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
