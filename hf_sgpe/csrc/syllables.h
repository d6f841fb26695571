// Syllables: text → written syllables, by the tables of splitting/scripts.py, as splitting/syllables.py specifies it.

#pragma once

#include <array>
#include <stdexcept>
#include <vector>

#include "counter.h"

namespace hf_sgpe {

class Syllables {
 public:
  // 0: none; 1 to 7: those of the tables; 8: a letter or mark that is in no syllable; 9: joiners
  static constexpr int kTableClasses = 9, kJoiner = 9, kClasses = 10;
  using State = std::array<int, kClasses>;  // class → next state, or -1

  struct Script {
    std::vector<Ranges> classes;  // by class
    std::vector<uint32_t> joiners;
    std::vector<State> grammar;  // by state; the first is the start
    std::vector<bool> ends;      // by state: a syllable may end in it
  };

  explicit Syllables(std::vector<Script> scripts) : scripts_(std::move(scripts)), table_(kCodePoints) {
    if (scripts_.size() >> 12) throw std::invalid_argument("there can be at most 4095 scripts");
    for (size_t script = 0; script < scripts_.size(); ++script) {
      if (scripts_[script].grammar.empty()) throw std::invalid_argument("a script has no grammar");
      if (scripts_[script].ends.size() != scripts_[script].grammar.size())
        throw std::invalid_argument("there must be one entry of ends for each state");
      for (const State& state : scripts_[script].grammar)
        for (const int next : state)
          if (next >= static_cast<int>(scripts_[script].grammar.size()))
            throw std::invalid_argument("a grammar names a state that it does not have");
      for (size_t klass = 1; klass < scripts_[script].classes.size() && klass < kTableClasses; ++klass)
        for (auto [first, last] : scripts_[script].classes[klass])
          for (uint32_t point = first; point <= last && point < kCodePoints; ++point)
            table_[point] = static_cast<uint16_t>(script << 4 | klass);
    }
  }

  size_t size() const { return scripts_.size(); }

  // Index of the script that a word begins in after an optional space, or -1.
  template <class Character>
  int script_of(const Character* word, size_t n) const {
    if (n && word[0] == ' ') ++word, --n;
    const uint16_t value = n ? value_of(word[0]) : 0;
    return value ? value >> 4 : -1;
  }

  // Calls emit(start, end) for each unit, in characters.
  template <class Character, class Emit>
  void units(const Character* text, size_t n, bool leading_space, Emit&& emit) const {
    const auto white = [](Character c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
    size_t pending = 0, place = 0;
    while (place < n) {
      if (leading_space && white(text[place])) {
        size_t i = place;
        while (place < n && white(text[place])) ++place;
        pending = text[place - 1] == ' ';
        for (; i < place - pending; ++i) emit(i, i + 1);
        continue;
      }
      const size_t end = syllable_end(text, n, place);
      emit(place - pending, end);
      pending = 0;
      place = end;
    }
    if (pending) emit(n - 1, n);
  }

  // Adds the units of a word that occurs `count` times.
  void count_units(const std::vector<uint32_t>& word, int64_t count, Scratch& scratch, WordCounter& counter) const {
    units(word.data(), word.size(), true, [&](size_t start, size_t end) {
      uint8_t* const utf8 = scratch.reserve((end - start) * 4);
      uint8_t* out = utf8;
      for (size_t i = start; i < end; ++i) out = encode(word[i], out);
      counter.add(utf8, static_cast<size_t>(out - utf8), count);
    });
  }

 private:
  uint16_t value_of(uint32_t point) const { return point < kCodePoints ? table_[point] : 0; }

  template <class Character>
  size_t syllable_end(const Character* text, size_t n, size_t place) const {
    const uint16_t first = value_of(text[place++]);
    if (!first) return place;
    const Script& script = scripts_[first >> 4];
    int state = script.grammar[0][first & 15];
    size_t end = place;
    while (state >= 0 && place < n) {
      const uint32_t point = text[place++];
      const uint16_t value = value_of(point);
      int klass = 0;
      if (value) {
        klass = value >> 4 == first >> 4 ? value & 15 : 0;
      } else {
        for (const uint32_t joiner : script.joiners)
          if (joiner == point) klass = kJoiner;
      }
      state = script.grammar[static_cast<size_t>(state)][static_cast<size_t>(klass)];
      if (state >= 0 && script.ends[static_cast<size_t>(state)]) end = place;
    }
    return end;
  }

  std::vector<Script> scripts_;
  std::vector<uint16_t> table_;  // by code point: script and class; 0: neither
};

}  // namespace hf_sgpe
