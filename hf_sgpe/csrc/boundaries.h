// Boundaries: the starts of words, for 64 bytes at a time, from the sets of a Block.
//
// Most starts follow from the classes of a character and its neighbours. Where this is not enough, as after an apostrophe, the
// place is rough: the functions of patterns.h, which are always exact, find the words around it one by one.

#pragma once

#include "blocks.h"
#include "patterns.h"

namespace hf_sgpe {

// Bit sets of places in 64 bytes.
struct Starts {
  uint64_t words;    // a word begins here
  uint64_t scripts;  // a word of a script begins here, with its space
  uint64_t rough;
};

template <Base base>
class Boundaries {
  static constexpr bool gpt2 = base == Base::kGpt2;
  static constexpr bool any_space = base == Base::kAnySpace || base == Base::kTypographic;
  static constexpr bool cases = base == Base::kO200k || base == Base::kTekken;  // a capital after a small letter begins a word
  static constexpr bool one_digit = base == Base::kQwen2 || base == Base::kQwen35 || base == Base::kTekken;
  static constexpr bool contractions = base != Base::kTekken;
  static constexpr bool marks = cases || base == Base::kQwen35;  // marks are letters

  // The kinds of characters in the rules. The sets in the first line are disjoint.
  struct Kinds {
    uint64_t letters = 0, numbers = 0, other = 0, spaces = 0, lines = 0, script = 0;
    uint64_t small = 0, inside = 0;

    explicit Kinds(const Block& block)
        : letters(block.letters() | (marks ? block.of[kMark] : 0)),
          numbers(block.of[kNumber]),
          other(block.of[kOther] | (marks ? 0 : block.of[kMark])),
          spaces(block.of[kSpace] | (gpt2 ? block.of[kNewline] : 0)),
          lines(gpt2 ? 0 : block.of[kNewline]),
          script(block.script),
          small(block.of[kLower] | block.of[kUpper]),
          inside(block.inside) {}
  };

 public:
  // `blocks` has an additional empty block at each end.
  static void find(const Block* blocks, size_t n, Starts* starts) {
    if constexpr (base == Base::kBloom) return find_between_stops(blocks, n, starts);
    Kinds last(blocks[0]), now(blocks[1]);
    uint64_t last_first = 0;  // `first` of the last block
    for (size_t i = 0; i < n; ++i) {
      const Block &before = blocks[i], &block = blocks[i + 1], &after = blocks[i + 2];
      const Kinds next(after);
      const uint64_t letters = now.letters & ~follow(now.letters, last.letters);
      const uint64_t numbers = now.numbers & ~(one_digit ? now.inside : follow(now.numbers, last.numbers));
      const uint64_t other = now.other & ~follow(now.other, last.other);
      const uint64_t script = (now.script & ~follow(now.script, last.script)) | block.change;
      const uint64_t after_blank = follow(block.blank, before.blank);
      const uint64_t white = now.spaces | now.lines, last_white = last.spaces | last.lines;

      // White space: the last character before other text is a word, or the start of a word.
      uint64_t words = white & ~follow(white, last_white);
      if (!gpt2) {
        words &= ~(now.lines & follow(now.other, last.other));  // line breaks after punctuation belong to it
        words |= now.spaces & follow(now.lines, last.lines);
      }
      const uint64_t base_follows = precede(now.letters | now.numbers | now.other, next.letters | next.numbers | next.other);
      uint64_t last_spaces = now.spaces & base_follows;
      for (int k = 0; k < 2; ++k) last_spaces |= (last_spaces & now.inside) >> 1;
      const uint64_t blank_before_script = block.blank & precede(now.script, next.script);
      words |= (last_spaces & ~now.inside) | blank_before_script;

      // The first character of punctuation at the start of a word may belong to letters after it.
      uint64_t first = other & ~after_blank;
      words |= first;
      words |= numbers & ~(gpt2 ? after_blank : 0);
      words |= script & ~after_blank;
      if (gpt2) {
        words |= letters & ~after_blank;
      } else {
        for (int k = 0; k < 3; ++k) first |= follow(first, last_first) & now.inside;
        words |= letters & ~follow(now.spaces | first, last.spaces | last_first);
      }

      // A white space character whose bytes are in two blocks.
      uint64_t rough = now.spaces & (next.inside & 1) << 63;
      if (contractions) {
        const uint64_t quotes = block.quote & precede(now.small, next.small);
        rough |= quotes & (cases ? follow(now.letters, last.letters) : ~after_blank);
      }
      if (!gpt2) rough |= now.lines & follow(now.spaces, last.spaces);
      if (any_space) rough |= white & ~block.blank & precede(now.other, next.other);
      if (!gpt2 && !one_digit) {
        const uint64_t two = now.numbers & follow(now.numbers, last.numbers), last_two = last_pair(before);
        rough |= two & (two << 2 | last_two >> 62);
      }
      if (cases) {
        words |= block.of[kUpper] & follow(block.of[kLower], before.of[kLower]);
        const uint64_t either = block.of[kLetter] | block.of[kMark], last_either = before.of[kLetter] | before.of[kMark];
        rough |= block.of[kUpper] & ~now.inside & follow(either, last_either);
        rough |= block.of[kMark] & ~now.inside & ~follow(now.letters, last.letters);
        rough |= block.special & follow(now.lines, last.lines);
      }
      starts[i] = {words, blank_before_script | (script & ~after_blank), rough};
      last_first = first;
      last = now;
      now = next;
    }
  }

 private:
  static uint64_t follow(uint64_t places, uint64_t earlier) { return places << 1 | earlier >> 63; }
  static uint64_t precede(uint64_t places, uint64_t later) { return places >> 1 | later << 63; }

  // Words are an optional space and a run of characters other than white space and the stops in `special`.
  static void find_between_stops(const Block* blocks, size_t n, Starts* starts) {
    const auto stops_of = [](const Block& block) { return block.of[kSpace] | block.of[kNewline] | block.special; };
    const auto words_of = [](const Block& block) {
      return (block.letters() | block.of[kMark] | block.of[kNumber] | block.of[kOther]) & ~block.special;
    };
    for (size_t i = 0; i < n; ++i) {
      const Block &before = blocks[i], &block = blocks[i + 1], &after = blocks[i + 2];
      const uint64_t stops = stops_of(block), words = words_of(block);
      const uint64_t script = (block.script & ~follow(block.script, before.script)) | block.change;
      const uint64_t first = (words & ~follow(words, words_of(before))) | script;
      const uint64_t blanks = block.blank & precede(words | block.script, words_of(after) | after.script);
      const uint64_t after_blank = follow(block.blank, before.blank);
      starts[i] = {(first & ~after_blank) | blanks | (stops & ~follow(stops, stops_of(before))), 0, 0};
    }
  }

  // Numbers after numbers. Only the last two places are correct.
  static uint64_t last_pair(const Block& block) { return block.of[kNumber] & block.of[kNumber] << 1; }
};

}  // namespace hf_sgpe
