// Syllables: text → written syllables, by the tables of splitting/script_tables.py, as splitting/syllables.py specifies.

#pragma once

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

#include "counter.h"

namespace hf_sgpe {

class Syllables {
 public:
  // 0: no class; 1: a letter or mark outside all syllables; from 2 on: the classes of the grammars
  static constexpr int kClassBits = 5, kClasses = 1 << kClassBits;
  // The kinds of characters in every script: ZWJ, ZWNJ, and shared marks.
  static constexpr size_t kShared = 3;

  struct Script {
    std::vector<std::pair<int, Ranges>> classes;  // characters by class
    std::array<int, kShared> shared;              // the class of each kind of shared character, or 0
    std::vector<std::vector<int>> grammar;        // state → class → next state, or -1; the first state is the start
    std::vector<bool> ends;                       // by state: whether a syllable may end in it
  };

  explicit Syllables(std::vector<Script> scripts, const Ranges& marks)
      : scripts_(std::move(scripts)), table_(kCodePoints) {
    if (scripts_.size() >= kNoScript) throw std::invalid_argument("there can be at most 2046 scripts");
    fill(kNoScript, 0, {{kZwj, kZwj}});
    fill(kNoScript, 1, {{kZwnj, kZwnj}});
    fill(kNoScript, 2, marks);
    for (size_t number = 0; number < scripts_.size(); ++number) {
      const Script& script = scripts_[number];
      const size_t states = script.grammar.size();
      if (!states) throw std::invalid_argument("a script has no grammar");
      if (script.ends.size() != states) throw std::invalid_argument("there must be one entry of ends for each state");
      const auto is_class = [&](int klass) { return klass >= 0 && static_cast<size_t>(klass) < script.grammar[0].size(); };
      for (const std::vector<int>& row : script.grammar) {
        if (row.size() < 2 || row.size() > kClasses || row.size() != script.grammar[0].size())
          throw std::invalid_argument("each state must have one entry for each class, of which there can be 31");
        for (const int next : row)
          if (next >= static_cast<int>(states)) throw std::invalid_argument("a grammar names a state that it does not have");
      }
      if (!std::all_of(script.shared.begin(), script.shared.end(), is_class))
        throw std::invalid_argument("a grammar has no such class");
      for (const auto& [klass, ranges] : script.classes) {
        if (klass < 1 || !is_class(klass)) throw std::invalid_argument("a grammar has no such class");
        for (auto [first, last] : ranges)
          for (uint32_t point = first; point <= last && point < kCodePoints; ++point)
            if (table_[point] == (kNoScript << kClassBits | 2)) owned_marks_.push_back(point);
        fill(number, klass, ranges);
      }
    }
    std::sort(owned_marks_.begin(), owned_marks_.end());
  }

  size_t size() const { return scripts_.size(); }

  // The index of the script of a word's first character after an optional space, or -1.
  template <class Character>
  int script_of(const Character* word, size_t n) const {
    if (n && word[0] == ' ') ++word, --n;
    const uint16_t value = n ? value_of(word[0]) : 0;
    return value && value >> kClassBits != kNoScript ? value >> kClassBits : -1;
  }

  // Calls emit(start, end) for each unit. Places are in characters.
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
  static constexpr size_t kNoScript = (1 << (16 - kClassBits)) - 1;  // the script number of shared characters
  static constexpr uint32_t kZwnj = 0x200C, kZwj = 0x200D;

  void fill(size_t script, int klass, const Ranges& ranges) {
    for (auto [first, last] : ranges)
      for (uint32_t point = first; point <= last && point < kCodePoints; ++point)
        table_[point] = static_cast<uint16_t>(script << kClassBits | static_cast<size_t>(klass));
  }

  uint16_t value_of(uint32_t point) const { return point < kCodePoints ? table_[point] : 0; }

  // The class of a character after letters of a script.
  int class_of(uint32_t point, size_t number) const {
    const uint16_t value = value_of(point);
    if (!value) return 0;
    const size_t own = value >> kClassBits, klass = value & (kClasses - 1);
    if (own == number) return static_cast<int>(klass);
    if (own == kNoScript) return scripts_[number].shared[klass];
    const bool is_mark = std::binary_search(owned_marks_.begin(), owned_marks_.end(), point);
    return is_mark ? scripts_[number].shared[2] : 0;
  }

  template <class Character>
  size_t syllable_end(const Character* text, size_t n, size_t place) const {
    const uint16_t first = value_of(text[place++]);
    const size_t number = first >> kClassBits;
    if (!first || number == kNoScript) return place;
    const Script& script = scripts_[number];
    int state = script.grammar[0][first & (kClasses - 1)];
    size_t end = place;
    while (state >= 0 && place < n) {
      const int klass = class_of(text[place++], number);
      state = script.grammar[static_cast<size_t>(state)][static_cast<size_t>(klass)];
      if (state >= 0 && script.ends[static_cast<size_t>(state)]) end = place;
    }
    return end;
  }

  std::vector<Script> scripts_;
  std::vector<uint16_t> table_;        // by code point: script and class; 0: no script
  std::vector<uint32_t> owned_marks_;  // shared marks that also belong to one of the scripts
};

}  // namespace hf_sgpe
