// Trainer: words with counts → merges, as bpe/trainer.py specifies it.
//
// All symbols are in one array. Each pair above a threshold of frequency has a list of the places where it occurs. All places
// of a pair appear in the step that makes the newer of its two tokens, and later its count only falls. So a list is written
// once, and each place is checked when it is read. The time of a merge is proportional to the number of places of its pair,
// and the time of all merges together at most to the number of symbols, for any words. The choice of the next pair takes
// logarithmic time. When no pair above the threshold is left, the threshold is lowered and all pairs are counted again. That
// takes time proportional to the number of symbols left, but happens only a few times, and most pairs stay too rare to be in
// memory.
//
// learn_in_parity does the same for several languages, each with its own words, as bpe/parity.py specifies it.

#pragma once

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "merges.h"

namespace hf_sgpe {

// The order of pairs with the same count.
enum class TieBreak { kSmallestPairId, kGreatestPairId, kGreatestPairBytes };

inline TieBreak tie_break_of(const std::string& name) {
  if (name == "smallest-pair-id") return TieBreak::kSmallestPairId;
  if (name == "greatest-pair-id") return TieBreak::kGreatestPairId;
  if (name == "greatest-pair-bytes") return TieBreak::kGreatestPairBytes;
  throw std::invalid_argument("unknown tie rule " + name);
}

class Trainer {
 public:
  // `tokens`: the bytes of each token in the words, by id. `counts`: the count of each word; must outlive the trainer.
  Trainer(std::vector<std::string> tokens, TieBreak tie_break, std::span<const int64_t> counts)
      : tokens_(std::move(tokens)), tie_break_(tie_break), counts_(counts), lengths_(tokens_.size(), 1) {
    if (counts.size() >= kMostWords) throw std::length_error("more than 1.6 billion words: train on fewer words");
    symbols_.push_back(INT32_MIN);
  }

  // Reserves memory for words with `symbols` symbols in total.
  void reserve(size_t symbols) { symbols_.reserve(symbols + counts_.size() + 1); }

  // Adds the next word. Symbol is any integer type.
  template <class Symbol>
  void add_word(const Symbol* ids, size_t n) {
    const size_t word = words_++;
    const int64_t count = counts_[word];
    if (n == 0 || count <= 0) return;
    // No pair can have a count above this sum.
    if (count > (kMostSymbols - total_) / static_cast<int64_t>(n))
      throw std::length_error("counts of more than 2**62 symbols: train on smaller counts");
    total_ += count * static_cast<int64_t>(n);
    if (n < 2) return;
    if (n > kLongest) throw std::length_error("a word has more than 2**29 symbols: train on shorter words");
    if (symbols_.size() + n >= kEnd) throw std::length_error("the words have more than 2**32 symbols: train on fewer words");
    for (size_t i = 0; i < n; ++i) {
      if (static_cast<int64_t>(ids[i]) < 0 || static_cast<size_t>(ids[i]) >= tokens_.size())
        throw std::invalid_argument("a word has an id that is not in the vocabulary");
      symbols_.push_back(static_cast<Id>(ids[i]));
    }
    symbols_.push_back(static_cast<Id>(INT32_MIN + static_cast<int64_t>(word)));
  }

  using OnMerge = std::function<void(Id, Id, Id, int64_t)>;  // new id, left, right, count

  // `merged`: merges of an earlier training, which are applied first and not returned.
  std::vector<std::pair<Id, Id>> learn(const std::vector<std::pair<Id, Id>>& merged, size_t num_merges, int64_t min_frequency,
                                       const OnMerge& on_merge) {
    start(min_frequency, /*any=*/!merged.empty());
    for (size_t rank = 0; rank < merged.size(); ++rank) {
      const uint32_t* const known = index_.find(merged[rank].first, merged[rank].second);
      if (!known || pairs_[*known].count < least_)
        throw std::invalid_argument("merge " + std::to_string(rank) + " was not learned from these words");
      merge(*known);
    }
    std::vector<std::pair<Id, Id>> merges;
    while (merges.size() < num_merges) {
      const uint32_t best = take_best();
      if (best == kEnd) break;
      const Pair& pair = pairs_[best];
      merges.emplace_back(pair.left, pair.right);
      if (on_merge) on_merge(static_cast<Id>(tokens_.size()), pair.left, pair.right, pair.count);
      merge(best);
    }
    return merges;
  }

  // The same step by step. Pairs rarer than min_frequency are lost. `any`: other code may choose the merges, so all other
  // pairs are kept.
  void start(int64_t min_frequency, bool any) {
    least_ = std::max<int64_t>(min_frequency, 1);
    enough_ = any ? least_ : INT64_MAX;
    count_pairs();
  }

  struct Candidate {
    Id left, right;
    int64_t count;  // 0: no pair
  };
  // The next pair that `learn` would merge. Apply it before the next call.
  Candidate next() {
    const uint32_t best = take_best();
    return best == kEnd ? Candidate{-1, -1, 0} : Candidate{pairs_[best].left, pairs_[best].right, pairs_[best].count};
  }

  // Merges all occurrences of a pair, if there are any, and returns the weighted number of symbols that this saves.
  int64_t apply(Id left, Id right) {
    if (const uint32_t* const known = index_.find(left, right)) return merge(*known);
    add_token(left, right);
    return 0;
  }

  // The weighted number of symbols before all merges.
  int64_t symbols() const { return total_; }

 private:
  static constexpr uint32_t kEnd = UINT32_MAX;
  static constexpr int64_t kMostSymbols = int64_t{1} << 62;
  static constexpr size_t kLongest = size_t{1} << 29, kMostWords = 3 * kLongest;
  static constexpr Id kEndsBelow = -static_cast<Id>(kLongest);  // a smaller number in symbols_ ends a word
  static constexpr size_t kShort = 64, kAhead = 8;
  static constexpr int64_t kStep = 8;  // the divisor of the threshold for the next count

  struct Pair {
    Id left, right;
    int64_t count;
    std::vector<uint32_t> places;
  };
  struct Job {  // a pair in the heap; its count may be outdated, but never too low
    int64_t count;
    uint32_t pair;
  };
  struct Neighbour {  // the effect of a merge on the pairs with one neighbouring token
    int64_t weight = 0;
    uint32_t births = 0;
    uint32_t pair = kEnd;
  };
  // An array that frees memory when it shrinks. A std::vector would first copy the rest.
  class Symbols {
   public:
    size_t size() const { return size_; }
    Id& operator[](size_t i) { return data_.get()[i]; }
    const Id& operator[](size_t i) const { return data_.get()[i]; }
    void push_back(Id symbol) {
      if (size_ == capacity_) allot(capacity_ + capacity_ / 2 + 64);
      data_.get()[size_++] = symbol;
    }
    void reserve(size_t size) { allot(std::max(size, size_)); }
    void shrink(size_t size) { allot(size_ = size); }

   private:
    void allot(size_t capacity) {
      void* const grown = std::realloc(data_.get(), capacity * sizeof(Id));
      if (!grown) throw std::bad_alloc();
      static_cast<void>(data_.release());
      data_.reset(static_cast<Id*>(grown));
      capacity_ = capacity;
    }
    struct Free {
      void operator()(Id* symbols) const { std::free(symbols); }
    };
    std::unique_ptr<Id, Free> data_;
    size_t size_ = 0, capacity_ = 0;
  };

  // Pair of ids → value.
  template <class Value>
  class PairTable {
   public:
    const Value* find(Id left, Id right) const {
      const Slot& slot = slots_[place(key(left, right))];
      return slot.key == kEmpty ? nullptr : &slot.value;
    }
    void prefetch(Id left, Id right) const { prefetch_line(&slots_[first_place(key(left, right))]); }
    Value& operator()(Id left, Id right) {
      if (++size_ * 3 > slots_.size() * 2) {
        std::vector<Slot> old(slots_.size() * 2);
        old.swap(slots_);
        for (const Slot& slot : old)
          if (slot.key != kEmpty) slots_[place(slot.key)] = slot;
      }
      Slot& slot = slots_[place(key(left, right))];
      size_ -= slot.key != kEmpty;
      slot.key = key(left, right);
      return slot.value;
    }
    template <class Function>
    void each(Function&& function) const {
      for (const Slot& slot : slots_)
        if (slot.key != kEmpty) function(static_cast<Id>(slot.key >> 32), static_cast<Id>(slot.key), slot.value);
    }

   private:
    static constexpr uint64_t kEmpty = UINT64_MAX;
    struct Slot {
      uint64_t key = kEmpty;
      Value value{};
    };
    static uint64_t key(Id left, Id right) { return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right); }
    size_t first_place(uint64_t key) const { return mix(key ^ seed_, 0x9E3779B97F4A7C15u) & (slots_.size() - 1); }
    size_t place(uint64_t key) const {
      size_t i = first_place(key);
      while (slots_[i].key != kEmpty && slots_[i].key != key) i = (i + 1) & (slots_.size() - 1);
      return i;
    }
    std::vector<Slot> slots_{1 << 12};
    uint64_t seed_ = hash_seed();
    size_t size_ = 0;
  };

  uint32_t add_pair(Id left, Id right, int64_t count) {
    const auto index = static_cast<uint32_t>(pairs_.size());
    if (index == kEnd) throw std::length_error("the words have more than 2**32 pairs: train on fewer words");
    pairs_.push_back({left, right, count, {}});
    index_(left, right) = index;
    return index;
  }

  // The number of the word at a place. If the end of the word is far, it is found among the ends of long words.
  uint32_t word_of(size_t place) const {
    const size_t near = place + kShort;
    while (place < near && symbols_[place] >= kEndsBelow) ++place;
    if (place == near) place = *std::lower_bound(long_ends_.begin(), long_ends_.end(), place);
    return static_cast<uint32_t>(symbols_[place] - static_cast<int64_t>(INT32_MIN));
  }

  // Moves symbols together, without gaps. Each symbol then takes one place.
  void compact() {
    size_t kept = 1;
    long_ends_.clear();
    for (size_t place = 1; place < symbols_.size(); ++place) {
      const size_t first = kept;
      for (; symbols_[place] >= 0; place += lengths_[static_cast<size_t>(symbols_[kept++])]) symbols_[kept] = symbols_[place];
      if (kept - first >= kShort) long_ends_.push_back(static_cast<uint32_t>(kept));
      if (kept - first < 2)
        kept = first;  // a word of one symbol has no pairs
      else
        symbols_[kept++] = symbols_[place];
    }
    symbols_.shrink(kept);
    lengths_.assign(tokens_.size(), 1);
  }

  // Calls function(place, weight) for each pair. Requires `compact`.
  template <class Function>
  void each_pair(Function&& function) const {
    for (size_t place = 1; place < symbols_.size(); place += 2) {
      const int64_t weight = counts_[word_of(place)];
      for (; symbols_[place + 1] >= 0; ++place) function(place, weight);
    }
  }

  // Counts all pairs, lowers the threshold, and lists the places of the pairs above it.
  void count_pairs() {
    compact();
    pairs_.clear();
    index_ = {};
    std::vector<int64_t> of_bytes(256 * 256);  // most symbols are bytes at first
    PairTable<int64_t> of_others;
    each_pair([&](size_t place, int64_t weight) {
      if (place + 9 < symbols_.size()) of_others.prefetch(symbols_[place + 8], symbols_[place + 9]);
      const Id left = symbols_[place], right = symbols_[place + 1];
      ((left | right) < 256 ? of_bytes[static_cast<size_t>(left << 8 | right)] : of_others(left, right)) += weight;
    });
    const auto each_count = [&](auto&& function) {
      for (Id pair = 0; pair < 256 * 256; ++pair) function(pair >> 8, pair & 255, of_bytes[static_cast<size_t>(pair)]);
      of_others.each(function);
    };
    int64_t most = 0;
    each_count([&](Id, Id, int64_t count) { most = std::max(most, count); });
    enough_ = std::max(least_, std::min(enough_, most) / kStep);
    each_count([&](Id left, Id right, int64_t count) {
      if (count >= enough_) add_pair(left, right, count);
    });
    of_others = {};
    std::vector<size_t> sizes(pairs_.size());
    const auto each_listed = [&](auto&& function) {
      each_pair([&](size_t place, int64_t) {
        if (const uint32_t* const pair = index_.find(symbols_[place], symbols_[place + 1])) function(*pair, place);
      });
    };
    each_listed([&](uint32_t pair, size_t) { ++sizes[pair]; });
    for (size_t i = 0; i < sizes.size(); ++i) pairs_[i].places.reserve(sizes[i]);
    each_listed([&](uint32_t pair, size_t place) { pairs_[pair].places.push_back(static_cast<uint32_t>(place)); });
    threshold_ = INT64_MAX;
  }

  // Whether `a` is merged after `b`.
  bool later(const Job& a, const Job& b) const {
    if (a.count != b.count) return a.count < b.count;
    const Pair &p = pairs_[a.pair], &q = pairs_[b.pair];
    if (tie_break_ == TieBreak::kGreatestPairBytes) {
      if (const int order = tokens_[p.left].compare(tokens_[q.left])) return order < 0;
      if (const int order = tokens_[p.right].compare(tokens_[q.right])) return order < 0;
    }
    const bool greater = p.left != q.left ? p.left > q.left : p.right > q.right;
    return tie_break_ == TieBreak::kGreatestPairId ? !greater && a.pair != b.pair : greater;
  }

  // The next pair to merge, or kEnd. The heap has only pairs whose count reaches a threshold, which is lowered when the heap
  // is empty. Many pairs never enter it.
  uint32_t take_best() {
    const auto order = [this](const Job& a, const Job& b) { return later(a, b); };
    for (;;) {
      while (!heap_.empty()) {
        std::pop_heap(heap_.begin(), heap_.end(), order);
        const Job job = heap_.back();
        heap_.pop_back();
        const int64_t count = pairs_[job.pair].count;
        if (count == job.count) return job.pair;
        if (count >= threshold_) push({count, job.pair});
      }
      if (threshold_ <= least_) return kEnd;
      if (threshold_ <= enough_) count_pairs();
      int64_t most = 0;
      for (const Pair& pair : pairs_) most = std::max(most, pair.count);
      threshold_ = std::max(enough_, std::min(threshold_, most + 1) / 2);
      for (size_t i = 0; i < pairs_.size(); ++i)
        if (pairs_[i].count >= threshold_) heap_.push_back({pairs_[i].count, static_cast<uint32_t>(i)});
      std::make_heap(heap_.begin(), heap_.end(), order);
    }
  }

  void push(Job job) {
    heap_.push_back(job);
    std::push_heap(heap_.begin(), heap_.end(), [this](const Job& a, const Job& b) { return later(a, b); });
  }

  Id add_token(Id left, Id right) {
    const auto new_id = static_cast<Id>(tokens_.size());
    tokens_.push_back(tie_break_ == TieBreak::kGreatestPairBytes ? tokens_[left] + tokens_[right] : std::string());
    lengths_.push_back(lengths_[left] + lengths_[right]);
    left_.resize(tokens_.size());
    right_.resize(tokens_.size());
    return new_id;
  }

  // Returns the weighted number of symbols that the merge saves.
  int64_t merge(uint32_t merged) {
    const Pair pair = std::move(pairs_[merged]);
    const std::vector<uint32_t>& places = pair.places;
    const Id new_id = add_token(pair.left, pair.right);
    const uint32_t left_length = lengths_[pair.left], length = lengths_[new_id];
    int64_t fewer = 0;
    // Prefetch places some steps ahead, and then the counts of their words.
    uint32_t words[kAhead] = {};
    for (size_t i = 0; i < places.size() + kAhead; ++i) {
      if (i + kAhead < places.size()) prefetch_line(&symbols_[places[i + kAhead]]);
      uint32_t& word = words[i % kAhead];
      if (i >= kAhead) {
        const uint32_t place = places[i - kAhead], second = place + left_length;
        if (symbols_[place] == pair.left && symbols_[second] == pair.right) {
          const int64_t weight = counts_[word];
          if (const uint32_t previous = before(place)) note(left_, before_, symbols_[previous], weight);
          if (const Id next = symbols_[place + length]; next >= 0) note(right_, after_, next, weight);
          symbols_[second] = -1;
          symbols_[place + length - 1] = -static_cast<Id>(length);
          symbols_[place] = new_id;
          fewer += weight;
        }
      }
      if (i < places.size() && symbols_[places[i]] == pair.left) prefetch_line(&counts_[word = word_of(places[i])]);
    }
    // The old pairs lose the weight that new pairs gain. A pair may appear and lose weight in the same merge.
    settle(left_, before_, [&](Id id) { return std::pair{id, new_id}; });
    settle(right_, after_, [&](Id id) { return std::pair{new_id, id}; });
    if (!born_.empty()) list_places(places, new_id);
    for (const Id id : before_) lose(id, pair.left, left_[id].weight);
    for (const Id id : after_) lose(pair.right, id, right_[id].weight);
    for (const uint32_t i : born_)
      if (pairs_[i].count >= threshold_) push({pairs_[i].count, i});
    born_.clear();
    clear(left_, before_);
    clear(right_, after_);
    pairs_[merged].count = 0;
    return fewer;
  }

  // The place of the symbol before `place`, or 0 at the start of a word.
  uint32_t before(uint32_t place) const {
    const Id last = symbols_[place - 1];
    return last >= 0 ? place - 1 : last >= kEndsBelow ? place + static_cast<uint32_t>(last) : 0;
  }

  static void note(std::vector<Neighbour>& neighbours, std::vector<Id>& touched, Id id, int64_t weight) {
    Neighbour& neighbour = neighbours[id];
    if (neighbour.births++ == 0) touched.push_back(id);
    neighbour.weight += weight;
  }

  // Adds the new pairs on one side, if they are above the threshold.
  template <class PairOf>
  void settle(std::vector<Neighbour>& neighbours, const std::vector<Id>& touched, PairOf&& pair_of) {
    for (const Id id : touched) {
      Neighbour& neighbour = neighbours[id];
      if (neighbour.weight < enough_) continue;
      const auto [left, right] = pair_of(id);
      neighbour.pair = add_pair(left, right, neighbour.weight);
      pairs_[neighbour.pair].places.reserve(neighbour.births);
      born_.push_back(neighbour.pair);
    }
  }

  // Lists the places of the new pairs with a new token. A pair of two new tokens is found from its right token.
  void list_places(const std::vector<uint32_t>& places, Id new_id) {
    const auto list = [this](const Neighbour& neighbour, uint32_t place) {
      if (neighbour.pair != kEnd) pairs_[neighbour.pair].places.push_back(place);
    };
    for (size_t i = 0; i < places.size(); ++i) {
      if (i + kAhead < places.size()) prefetch_line(&symbols_[places[i + kAhead]]);
      const uint32_t place = places[i];
      if (symbols_[place] != new_id) continue;
      if (const uint32_t previous = before(place)) list(left_[symbols_[previous]], previous);
      if (const Id next = symbols_[place + lengths_[new_id]]; next >= 0) list(right_[next], place);
    }
  }

  void lose(Id left, Id right, int64_t weight) {
    const uint32_t* const known = index_.find(left, right);
    if (!known) return;
    Pair& pair = pairs_[*known];
    pair.count -= weight;
    if (pair.count < enough_) std::vector<uint32_t>().swap(pair.places);
  }

  static void clear(std::vector<Neighbour>& neighbours, std::vector<Id>& touched) {
    for (const Id id : touched) neighbours[id] = {};
    touched.clear();
  }

  std::vector<std::string> tokens_;
  TieBreak tie_break_;
  std::span<const int64_t> counts_;  // by word
  size_t words_ = 0;
  int64_t least_ = 1, enough_ = INT64_MAX, threshold_ = INT64_MAX, total_ = 0;
  // The symbols of all words. A symbol takes one place for each original symbol in it: its id, then negative numbers. After
  // each word, and before the first, is INT32_MIN plus the number of the word.
  Symbols symbols_;
  std::vector<uint32_t> lengths_;  // by token
  std::vector<uint32_t> long_ends_;
  std::vector<Pair> pairs_;
  PairTable<uint32_t> index_;
  std::vector<Job> heap_;
  std::vector<Neighbour> left_, right_;  // by token
  std::vector<Id> before_, after_;       // the neighbours in the current merge
  std::vector<uint32_t> born_;
};

// Merges for several languages. Each merge is the next one of the language whose held-out text has the most tokens. A language
// drops out when no frequent pair is left, and training ends when all languages have dropped out.
inline std::vector<std::pair<Id, Id>> learn_in_parity(std::vector<Trainer>& languages, std::vector<Trainer>& held_out,
                                                      size_t num_merges, int64_t min_frequency, const Trainer::OnMerge& on_merge,
                                                      Id next_id) {
  std::vector<int64_t> tokens;
  std::vector<bool> learns(languages.size(), true);
  for (Trainer& trainer : languages) trainer.start(1, /*any=*/true);
  for (Trainer& trainer : held_out) {
    tokens.push_back(trainer.symbols());
    trainer.start(1, /*any=*/true);
  }
  std::vector<std::pair<Id, Id>> merges;
  while (merges.size() < num_merges) {
    size_t dearest = languages.size();
    for (size_t i = 0; i < languages.size(); ++i)
      if (learns[i] && (dearest == languages.size() || tokens[i] > tokens[dearest])) dearest = i;
    if (dearest == languages.size()) break;
    const Trainer::Candidate pair = languages[dearest].next();
    if (pair.count < std::max<int64_t>(min_frequency, 1)) {
      learns[dearest] = false;
      continue;
    }
    if (on_merge) on_merge(next_id + static_cast<Id>(merges.size()), pair.left, pair.right, pair.count);
    merges.emplace_back(pair.left, pair.right);
    for (Trainer& trainer : languages) trainer.apply(pair.left, pair.right);
    for (size_t i = 0; i < held_out.size(); ++i) tokens[i] -= held_out[i].apply(pair.left, pair.right);
  }
  return merges;
}

}  // namespace hf_sgpe
