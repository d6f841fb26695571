// Trainer: words with counts → merges, as bpe/trainer.py specifies it.
//
// All symbols are in one array. Every pair keeps a list of the places where it occurs. All of them appear in the step that
// makes the younger of its two tokens, and from then on its count only falls, so a list is written once, and each place is
// checked when it is read. A merge takes time proportional to the places of its pair, and all merges together at most to the
// number of symbols, whatever the words look like; choosing the next pair takes logarithmic time.
//
// learn_in_parity does the same for several languages, each with its own words, as bpe/parity.py specifies it.

#pragma once

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "merges.h"

namespace hf_sgpe {

// Which of several pairs with the same count is merged first.
enum class TieBreak { kSmallestPairId, kGreatestPairId, kGreatestPairBytes };

inline TieBreak tie_break_of(const std::string& name) {
  if (name == "smallest-pair-id") return TieBreak::kSmallestPairId;
  if (name == "greatest-pair-id") return TieBreak::kGreatestPairId;
  if (name == "greatest-pair-bytes") return TieBreak::kGreatestPairBytes;
  throw std::invalid_argument("unknown tie rule " + name);
}

class Trainer {
 public:
  // `tokens`: the bytes of every token that the words use, by id.
  Trainer(std::vector<std::string> tokens, TieBreak tie_break) : tokens_(std::move(tokens)), tie_break_(tie_break) {}

  void reserve(size_t symbols, size_t words) {
    nodes_.reserve(symbols);
    weights_.reserve(words);
  }

  // Symbol is any integer type.
  template <class Symbol>
  void add_word(const Symbol* ids, size_t n, int64_t count) {
    if (n == 0 || count <= 0) return;
    // No pair can have a greater count than this sum.
    if (count > (kMostSymbols - total_) / static_cast<int64_t>(n))
      throw std::length_error("counts of more than 2**62 symbols: train on smaller counts");
    total_ += count * static_cast<int64_t>(n);
    if (n < 2) return;
    if (nodes_.size() + n >= kEnd) throw std::length_error("the words have more than 2**32 symbols: train on fewer words");
    const auto word = static_cast<uint32_t>(weights_.size());
    weights_.push_back(count);
    for (size_t i = 0; i < n; ++i) {
      const auto place = static_cast<uint32_t>(nodes_.size());
      if (static_cast<int64_t>(ids[i]) < 0 || static_cast<size_t>(ids[i]) >= tokens_.size())
        throw std::invalid_argument("a word has an id that is not in the vocabulary");
      nodes_.push_back({static_cast<Id>(ids[i]), i ? place - 1 : kEnd, i + 1 < n ? place + 1 : kEnd, word});
    }
  }

  using OnMerge = std::function<void(Id, Id, Id, int64_t)>;  // new id, left, right, count

  // `merged`: merges learned earlier, which are applied first and are not returned again.
  std::vector<std::pair<Id, Id>> learn(const std::vector<std::pair<Id, Id>>& merged, size_t num_merges, int64_t min_frequency,
                                       const OnMerge& on_merge) {
    start(min_frequency);
    for (size_t rank = 0; rank < merged.size(); ++rank) {
      const uint32_t known = index_.find(merged[rank].first, merged[rank].second);
      if (known == kEnd || pairs_[known].count < least_)
        throw std::invalid_argument("merge " + std::to_string(rank) + " is not one of these words");
      merge(known);
    }
    std::vector<std::pair<Id, Id>> merges;
    while (merges.size() < num_merges) {
      const uint32_t best = take_best();
      if (best == kEnd) break;
      const Pair pair = pairs_[best];
      merges.emplace_back(pair.left, pair.right);
      if (on_merge) on_merge(static_cast<Id>(tokens_.size()), pair.left, pair.right, pair.count);
      merge(best);
    }
    return merges;
  }

  // The same step by step, for merges that are chosen elsewhere. Pairs that occur less often than min_frequency are lost.
  void start(int64_t min_frequency) {
    least_ = std::max<int64_t>(min_frequency, 1);
    count_pairs();
  }

  struct Candidate {
    Id left, right;
    int64_t count;  // 0: there is none
  };
  // The next pair that `learn` would merge; it has to be applied before the next is asked for.
  Candidate next() {
    const uint32_t best = take_best();
    return best == kEnd ? Candidate{-1, -1, 0} : Candidate{pairs_[best].left, pairs_[best].right, pairs_[best].count};
  }

  // Merges a pair wherever it occurs, which may be nowhere, and returns how many symbols fewer there are, weighted.
  int64_t apply(Id left, Id right) {
    const uint32_t known = index_.find(left, right);
    if (known != kEnd) return merge(known);
    add_token(left, right);
    return 0;
  }

  // How many symbols there were before any merge, weighted.
  int64_t symbols() const { return total_; }

 private:
  static constexpr uint32_t kEnd = UINT32_MAX;
  static constexpr int64_t kMostSymbols = int64_t{1} << 62;

  struct Node {  // a symbol in its word
    Id id;
    uint32_t previous, next;  // kEnd where the word begins and ends
    uint32_t word;
  };
  struct Pair {
    Id left, right;
    int64_t count;
    const uint32_t* places;
    size_t size;
  };
  struct Job {  // a pair in the heap; its count may be out of date, but never too low
    int64_t count;
    uint32_t pair;
  };
  struct Neighbour {  // what one merge does to the pairs with one neighbouring token
    int64_t weight = 0;
    uint32_t births = 0;
    uint32_t* places = nullptr;
  };
  struct Birth {
    Id neighbour;
    uint32_t place;
  };

  // Memory that is handed out in pieces and freed all at once.
  class Arena {
   public:
    uint32_t* take(size_t n) {
      if (n > left_) {
        left_ = std::max(n, size_t{1} << 18);
        chunks_.emplace_back(new uint32_t[left_]);
        free_ = chunks_.back().get();
      }
      left_ -= n;
      return std::exchange(free_, free_ + n);
    }

   private:
    std::vector<std::unique_ptr<uint32_t[]>> chunks_;
    uint32_t* free_ = nullptr;
    size_t left_ = 0;
  };

  // Pair of ids → index in pairs_.
  class Index {
   public:
    Index() : slots_(1 << 12), seed_(hash_seed()) {}
    uint32_t find(Id left, Id right) const { return slots_[place(key(left, right))].index; }
    void add(Id left, Id right, uint32_t index) {
      if (++size_ * 2 > slots_.size()) {
        std::vector<Slot> old(slots_.size() * 2);
        old.swap(slots_);
        for (const Slot& slot : old)
          if (slot.index != kEnd) slots_[place(slot.key)] = slot;
      }
      slots_[place(key(left, right))] = {key(left, right), index};
    }

   private:
    struct Slot {
      uint64_t key = 0;
      uint32_t index = kEnd;
    };
    static uint64_t key(Id left, Id right) { return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right); }
    size_t place(uint64_t key) const {
      size_t i = mix(key ^ seed_, 0x9E3779B97F4A7C15u) & (slots_.size() - 1);
      while (slots_[i].index != kEnd && slots_[i].key != key) i = (i + 1) & (slots_.size() - 1);
      return i;
    }
    std::vector<Slot> slots_;
    uint64_t seed_;
    size_t size_ = 0;
  };

  uint32_t add_pair(Id left, Id right, int64_t count, const uint32_t* places, size_t size) {
    const auto index = static_cast<uint32_t>(pairs_.size());
    if (index == kEnd) throw std::length_error("the words have more than 2**32 pairs: train on fewer words");
    pairs_.push_back({left, right, count, places, size});
    index_.add(left, right, index);
    return index;
  }

  void count_pairs() {
    // The pair at each place, so that each is looked up only once.
    std::vector<uint32_t> pair_at(nodes_.size(), kEnd);
    std::vector<uint32_t> of_bytes(256 * 256, kEnd);  // most symbols are bytes
    for (size_t place = 0; place < nodes_.size(); ++place) {
      const Node& node = nodes_[place];
      if (node.next == kEnd) continue;
      const Id left = node.id, right = nodes_[node.next].id;
      const bool bytes = (left | right) < 256;
      uint32_t& known = of_bytes[bytes ? static_cast<size_t>(left) << 8 | static_cast<size_t>(right) : 0];
      uint32_t pair = bytes ? known : index_.find(left, right);
      if (pair == kEnd) {
        pair = add_pair(left, right, 0, nullptr, 0);
        if (bytes) known = pair;
      }
      pairs_[pair].count += weights_[node.word];
      ++pairs_[pair].size;
      pair_at[place] = pair;
    }
    std::vector<uint32_t*> free(pairs_.size());
    for (size_t i = 0; i < pairs_.size(); ++i) pairs_[i].places = free[i] = arena_.take(pairs_[i].size);
    for (size_t place = 0; place < nodes_.size(); ++place)
      if (pair_at[place] != kEnd) *free[pair_at[place]]++ = static_cast<uint32_t>(place);
    threshold_ = INT64_MAX;
  }

  // Whether a is merged after b.
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

  // The next pair to merge, or kEnd. The heap holds only pairs whose count reaches a threshold, which is lowered when the
  // heap is empty: most pairs are rare and never enter it.
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
      int64_t most = 0;
      for (const Pair& pair : pairs_) most = std::max(most, pair.count);
      threshold_ = std::max(least_, std::min(threshold_, most + 1) / 2);
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
    left_.resize(tokens_.size());
    right_.resize(tokens_.size());
    return new_id;
  }

  // Returns how many symbols fewer there are, weighted.
  int64_t merge(uint32_t merged) {
    const Pair pair = pairs_[merged];  // a copy, since pairs_ grows
    const Id new_id = add_token(pair.left, pair.right);
    int64_t fewer = 0;
    for (size_t i = 0; i < pair.size; ++i) {
      if (i + 16 < pair.size) prefetch_line(&nodes_[pair.places[i + 16]]);
      if (i + 6 < pair.size) prefetch_line(&weights_[nodes_[pair.places[i + 6]].word]);
      const uint32_t place = pair.places[i];
      Node& node = nodes_[place];
      if (node.id != pair.left || node.next == kEnd || nodes_[node.next].id != pair.right) continue;
      Node& second = nodes_[node.next];
      const int64_t weight = weights_[node.word];
      if (node.previous != kEnd) note(left_, before_, nodes_[node.previous].id, node.previous, weight);
      if (second.next != kEnd) {
        note(right_, after_, nodes_[second.next].id, place, weight);
        nodes_[second.next].previous = place;
      }
      node.id = new_id;
      node.next = second.next;
      second.id = -1;
      fewer += weight;
    }
    // The old pairs lose what the new ones gain; a pair may appear and lose within the same merge.
    settle(left_, before_, [&](Id id) { return std::pair{id, new_id}; });
    settle(right_, after_, [&](Id id) { return std::pair{new_id, id}; });
    for (const Id id : before_.touched) lose(id, pair.left, left_[id].weight);
    for (const Id id : after_.touched) lose(pair.right, id, right_[id].weight);
    for (const uint32_t i : born_)
      if (pairs_[i].count >= threshold_) push({pairs_[i].count, i});
    born_.clear();
    clear(left_, before_);
    clear(right_, after_);
    pairs_[merged].count = 0;
    return fewer;
  }

  struct Side {
    std::vector<Birth> births;
    std::vector<Id> touched;
  };

  static void note(std::vector<Neighbour>& neighbours, Side& side, Id id, uint32_t place, int64_t weight) {
    Neighbour& neighbour = neighbours[id];
    if (neighbour.births++ == 0) side.touched.push_back(id);
    neighbour.weight += weight;
    side.births.push_back({id, place});
  }

  // Adds the pairs that appeared on one side, with their places. Pairs below the minimum frequency never matter.
  template <class PairOf>
  void settle(std::vector<Neighbour>& neighbours, Side& side, PairOf&& pair_of) {
    for (const Id id : side.touched) {
      Neighbour& neighbour = neighbours[id];
      if (neighbour.weight < least_) continue;
      neighbour.places = arena_.take(neighbour.births);
      const auto [left, right] = pair_of(id);
      born_.push_back(add_pair(left, right, neighbour.weight, neighbour.places, neighbour.births));
    }
    for (const Birth birth : side.births)
      if (uint32_t*& places = neighbours[birth.neighbour].places) *places++ = birth.place;
  }

  void lose(Id left, Id right, int64_t weight) {
    const uint32_t i = index_.find(left, right);
    if (i != kEnd) pairs_[i].count -= weight;
  }

  static void clear(std::vector<Neighbour>& neighbours, Side& side) {
    for (const Id id : side.touched) neighbours[id] = {};
    side.touched.clear();
    side.births.clear();
  }

  std::vector<std::string> tokens_;
  TieBreak tie_break_;
  int64_t least_ = 1, threshold_ = INT64_MAX, total_ = 0;
  std::vector<Node> nodes_;
  std::vector<int64_t> weights_;
  std::vector<Pair> pairs_;
  Index index_;
  Arena arena_;
  std::vector<Job> heap_;
  std::vector<Neighbour> left_, right_;  // by token
  Side before_, after_;
  std::vector<uint32_t> born_;
};

// Merges for several languages: each is the pair that the language whose held-out text has the most tokens would merge next.
// A language drops out when it has no pair left that is frequent enough; where all have, learning ends.
inline std::vector<std::pair<Id, Id>> learn_in_parity(std::vector<Trainer>& languages, std::vector<Trainer>& held_out,
                                                      size_t num_merges, int64_t min_frequency, const Trainer::OnMerge& on_merge,
                                                      Id next_id) {
  std::vector<int64_t> tokens;
  std::vector<bool> learns(languages.size(), true);
  for (Trainer& trainer : languages) trainer.start(1);  // what is rare here may be merged for another language
  for (Trainer& trainer : held_out) {
    tokens.push_back(trainer.symbols());
    trainer.start(1);
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
