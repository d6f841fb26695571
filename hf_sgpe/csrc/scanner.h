// Scanner: text → words, by the named split patterns, alone or between the words of scripts.

#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>

#include "boundaries.h"

namespace hf_sgpe {

// Ranges of code points: {first, last}, both inclusive.
using Ranges = std::vector<std::pair<uint32_t, uint32_t>>;

class Scanner {
 public:
  // `base`: the name of the pattern between words of scripts, or "sgpe". A word of a script is an optional space, a character
  // of one of `scripts`, and any number of characters of that script and its `joiners`. sgpe needs one script without
  // joiners. `steps` split the text between these words before the pattern, one after another: each cuts out the runs of its
  // characters, of at most the given length (0: any length).
  Scanner(const std::string& base, const std::vector<Ranges>& scripts, const std::vector<Ranges>& joiners,
          const std::vector<std::pair<Ranges, size_t>>& steps = {}) {
    static const std::pair<const char*, Base> names[] = {
        {"gpt2", Base::kGpt2},   {"cl100k", Base::kCl100k}, {"llama3", Base::kCl100k},
        {"qwen2", Base::kQwen2}, {"qwen35", Base::kQwen35}, {"o200k", Base::kO200k},
        {"tekken", Base::kTekken}, {"bloom", Base::kBloom},
        {"cl100k-any-space", Base::kAnySpace}, {"cl100k-typographic", Base::kTypographic}};
    sgpe_ = base == "sgpe";
    bool known = sgpe_;
    for (const auto& [name, value] : names)
      if (base == name) base_ = value, known = true;
    if (!known) throw std::invalid_argument("there is no scanner for the pattern " + base);
    if (sgpe_ && scripts.size() != 1) throw std::invalid_argument("a scanner for sgpe needs exactly one script");
    if (steps.size() > 8 || (sgpe_ && !steps.empty())) throw std::invalid_argument("a scanner can have at most 8 steps");
    if (!steps.empty()) in_steps_.resize(kCodePoints);
    for (const auto& [ranges, most] : steps) {
      const auto step = static_cast<uint8_t>(1u << most_.size());
      for (auto [first, last] : ranges) {
        if (last >= kCodePoints) throw std::invalid_argument("the characters of a step must be Unicode's");
        for (uint32_t point = first; point <= last; ++point) in_steps_[point] |= step;
      }
      most_.push_back(most ? most : SIZE_MAX);
    }
    if (scripts.empty()) return;
    if (joiners.size() > scripts.size()) throw std::invalid_argument("a scanner needs a script for each set of joiners");
    if (scripts.size() >= 240) throw std::invalid_argument("a scanner can have at most 239 scripts");
    scripts_.resize(kCodePoints);
    for (const Ranges& script : scripts) fill(script, ++last_script_);
    fill_joiners(joiners);
    for (size_t i = 0; i < pages_.size(); ++i) {
      pages_[i].lead = static_cast<uint8_t>(0xE0 | i >> 5);
      pages_[i].second = static_cast<uint8_t>(0x80 | (i & 31) << 1);
      if (pages_[i].script == kSeveral) pages_[i].script = 0;
    }
  }

  // Calls emit(pointer, size) for each word in order. All words together are the text.
  template <class Emit>
  void words(const uint8_t* text, size_t size, Emit&& emit) const {
    if (sgpe_) return sgpe_words(text, text + size, emit);
    switch (base_) {
      case Base::kGpt2: return words<Base::kGpt2>(text, text + size, emit);
      case Base::kCl100k: return words<Base::kCl100k>(text, text + size, emit);
      case Base::kQwen2: return words<Base::kQwen2>(text, text + size, emit);
      case Base::kQwen35: return words<Base::kQwen35>(text, text + size, emit);
      case Base::kAnySpace: return words<Base::kAnySpace>(text, text + size, emit);
      case Base::kTypographic: return words<Base::kTypographic>(text, text + size, emit);
      case Base::kO200k: return words<Base::kO200k>(text, text + size, emit);
      case Base::kTekken: return words<Base::kTekken>(text, text + size, emit);
      case Base::kBloom: return words<Base::kBloom>(text, text + size, emit);
    }
  }

 private:
  using Pointer = const uint8_t*;
  static constexpr uint8_t kSeveral = 255;

  // Numbers the kinds of joiners after the scripts. A kind is the set of joiners with the same scripts.
  void fill_joiners(const std::vector<Ranges>& joiners) {
    std::map<uint32_t, std::array<bool, 256>> joined_by;
    for (size_t script = 0; script < joiners.size(); ++script)
      for (auto [first, last] : joiners[script])
        for (uint32_t point = first; point <= last && point < kCodePoints; ++point) joined_by[point][script + 1] = true;
    for (const auto& [point, scripts] : joined_by) {
      const auto kind = static_cast<size_t>(std::find(joins_.begin(), joins_.end(), scripts) - joins_.begin());
      if (kind == joins_.size()) joins_.push_back(scripts);
      if (last_script_ + joins_.size() >= kSeveral) throw std::invalid_argument("a scanner has too many kinds of joiners");
      if (scripts_[point] == 0 && point >= 0x80) scripts_[point] = static_cast<uint8_t>(last_script_ + 1 + kind);
    }
  }

  bool is_joiner(uint8_t value) const { return value > last_script_; }

  // Whether a character continues a word of a script.
  bool goes_on(uint8_t value, uint8_t script) const {
    return value == script || (is_joiner(value) && joins_[value - last_script_ - 1u][script]);
  }

  void fill(const Ranges& ranges, uint8_t value) {
    for (auto [first, last] : ranges) {
      if (last >= kCodePoints || first < 0x80)
        throw std::invalid_argument("the characters of a script must be between U+0080 and U+10FFFF");
      if (pages_.empty()) pages_.resize(512);
      for (uint32_t point = first; point <= last; ++point) {
        scripts_[point] = value;
        if (point < 0x800 || point > 0xFFFF) continue;
        Page& page = pages_[point >> 7];
        page.add(point);
        page.script = page.script == 0 || page.script == value ? value : kSeveral;
      }
    }
  }

  template <Base base, class Emit>
  void words(Pointer p, Pointer end, Emit& emit) const {
    if (most_.empty()) return chunks<base>(p, end, emit);
    if (scripts_.empty()) return steps<base>(0, p, end, emit);
    while (p < end) {
      const Pointer letter = next_letter(p, end);
      const Pointer word = letter > p && letter < end && letter[-1] == ' ' ? letter - 1 : letter;
      steps<base>(0, p, word, emit);
      if (letter == end) return;
      p = letter;
      const uint8_t script = scripts_[decode(p)];
      for (Pointer after = p; p < end; p = after) {
        const uint8_t value = *after < 0x80 ? (++after, uint8_t{0}) : scripts_[decode(after)];
        if (!goes_on(value, script)) break;
      }
      emit(word, static_cast<size_t>(p - word));
    }
  }

  // The sets of one chunk of a text.
  struct Chunk {
    Pointer text, end;
    Block* blocks;  // with an additional empty block at each end
    Starts* starts;
    size_t n;

    bool has(uint64_t Starts::*set, size_t place) const { return starts[place / kBlock].*set >> place % kBlock & 1; }

    bool lines(size_t place) const { return text[place] == '\n' || text[place] == '\r'; }

    // The first place in a set from `place` on, or the size of the chunk.
    size_t next(uint64_t Starts::*set, size_t place) const {
      const size_t size = static_cast<size_t>(end - text);
      if (place >= size) return size;
      size_t i = place / kBlock;
      uint64_t left = starts[i].*set & ~uint64_t{0} << place % kBlock;
      while (!left)
        if (++i == n) return size; else left = starts[i].*set;
      return i * kBlock + static_cast<size_t>(std::countr_zero(left));
    }

    // The last place in a set before `place`, which must exist.
    size_t previous(uint64_t Starts::*set, size_t place) const {
      size_t i = place / kBlock;
      uint64_t left = starts[i].*set & ((uint64_t{1} << place % kBlock) - 1);
      while (!left) left = starts[--i].*set;
      return i * kBlock + 63 - static_cast<size_t>(std::countl_zero(left));
    }
  };

  static constexpr size_t kChunk = 128 * kBlock;

  // The words of a text, chunk by chunk, so that the sets of a chunk stay in the processor's first cache.
  template <Base base, class Emit>
  void chunks(Pointer p, Pointer end, Emit& emit) const {
    Block blocks[kChunk / kBlock + 2];
    Starts starts[kChunk / kBlock];
    while (p < end) {
      const Pointer cut = chunk_end<base>(p, end);
      const size_t n = (static_cast<size_t>(cut - p) + kBlock - 1) / kBlock;
      if (n * kBlock <= kChunk) {
        chunk<base>({p, cut, blocks, starts, n}, emit);
      } else {
        const auto many_blocks = std::make_unique_for_overwrite<Block[]>(n + 2);
        const auto many_starts = std::make_unique_for_overwrite<Starts[]>(n);
        chunk<base>({p, cut, many_blocks.get(), many_starts.get(), n}, emit);
      }
      p = cut;
    }
  }

  // A place where a word begins regardless of the text before it, and which no earlier word looks beyond: a space before other
  // text, or a line break. Text without such a place is one chunk.
  template <Base base>
  static Pointer chunk_end(Pointer p, Pointer end) {
    const auto begins_word = [end](Pointer q) -> bool {
      if (base == Base::kBloom) return *q == ' ' && scan::bloom_word_at(q, end);
      if (*q == ' ') return q[1] > ' ' && (q[1] < 0x80 || !(kSpaces >> scan::class_at(q + 1) & 1));
      if (base == Base::kGpt2) return *q == '\n' && q[-1] > ' ' && q[-1] < 0x80;
      if (q[-1] != '\n' || *q <= '/') return false;
      // For these patterns, a line break may belong to the punctuation after it.
      if (base == Base::kAnySpace || base == Base::kTypographic) return (kLetters | bit(kNumber)) >> scan::class_at(q) & 1;
      return *q < 0x80 || !(kSpaces >> scan::class_at(q) & 1);
    };
    for (size_t most = kChunk;; most *= 2) {
      if (static_cast<size_t>(end - p) <= most) return end;
      for (Pointer q = p + most - 1; q > p + most / 2; --q)
        if (begins_word(q)) return q;
    }
  }

  template <Base base, class Emit>
  void chunk(const Chunk& chunk, Emit& emit) const {
    const size_t size = static_cast<size_t>(chunk.end - chunk.text), whole = size / kBlock;
    chunk.blocks[0] = chunk.blocks[chunk.n + 1] = {};
    classify(chunk.text, whole, chunk.blocks + 1);
    uint8_t script = 0;
    if (whole < chunk.n) {
      uint8_t rest[kBlock] = {};
      std::memcpy(rest, chunk.text + whole * kBlock, size % kBlock);
      classify(rest, 1, chunk.blocks + chunk.n);
    }
    for (size_t i = 1; i <= chunk.n; ++i) {
      Block& block = chunk.blocks[i];
      if (block.wide) classify_wide(chunk, i, script);
      block.of[kOther] = ~block.script;
      for (const Class klass : {kUpper, kLower, kLetter, kMark, kNumber, kSpace, kNewline})
        block.of[kOther] &= ~block.of[klass];
      if constexpr (base == Base::kBloom || base == Base::kTypographic) find_special<base>(chunk, i);
    }
    chunk.blocks[chunk.n + 1] = {};
    if (size % kBlock) chunk.blocks[chunk.n].of[kOther] &= ~uint64_t{0} >> (kBlock - size % kBlock);
    Boundaries<base>::find(chunk.blocks, chunk.n, chunk.starts);
    smooth<base>(chunk);
    size_t start = 0;
    for (size_t i = 0; i < chunk.n; ++i) {
      for (uint64_t left = chunk.starts[i].words & ~uint64_t{i == 0}; left; left &= left - 1) {
        const size_t place = i * kBlock + static_cast<size_t>(std::countr_zero(left));
        emit(chunk.text + start, place - start);
        start = place;
      }
    }
    emit(chunk.text + start, size - start);
  }

  // Adds the non-ASCII characters of a block to the sets. `script`: that of the last character of a script.
  void classify_wide(const Chunk& chunk, size_t i, uint8_t& script) const {
    Block &block = chunk.blocks[i], &after = chunk.blocks[i + 1];
    const Pointer text = chunk.text + (i - 1) * kBlock;
    const uint64_t own = block.wide & ~block.inside;  // without the character that begins in the block before
    // Nearly all characters of a text are of one script, so these are found all at once.
    if (const Page* page = page_of(text, own); page && kVectors && chunk.end - text >= static_cast<ptrdiff_t>(kBlock + 2) &&
                                               (script == 0 || script == page->script)) {
      const uint64_t members = members_by_vectors(text, *page), inside = members << 1 | members << 2;
      const uint64_t there = members >> 63 | members >> 62;
      block.script |= members | inside;
      block.inside |= inside;
      after.script |= there;
      after.inside |= there;
      script = page->script;
      if (classify_each(chunk, i, own & ~(members | inside), script, true)) return;
      block.remove(own);
      after.remove(after.wide);
    }
    classify_each(chunk, i, own, script, false);
  }

  // Adds the special characters of these patterns: the stops of bloom, and apostrophes of three bytes.
  template <Base base>
  static void find_special(const Chunk& chunk, size_t i) {
    Block &block = chunk.blocks[i], &after = chunk.blocks[i + 1];
    const Pointer text = chunk.text + (i - 1) * kBlock;
    uint64_t left = block.of[kOther] & ~block.inside;
    if (base == Base::kTypographic) left &= block.wide;
    else block.special &= block.inside;  // bytes of a character that begins in the block before
    for (; left; left &= left - 1) {
      const int place = std::countr_zero(left);
      if (text + place >= chunk.end) return;
      Pointer p = text + place;
      const uint32_t point = decode(p);
      if constexpr (base == Base::kTypographic) {
        if (point == 0x2019) (place + 2 < 64 ? block : after).quote |= uint64_t{1} << (place + 2) % 64;
      } else if (!scan::in_bloom_word(point)) {
        const uint64_t bytes = (uint64_t{1} << (p - text - place)) - 1;
        block.special |= bytes << place;
        if (place > 60) after.special |= bytes >> (64 - place);
      }
    }
  }

  const Page* page_of(Pointer text, uint64_t own) const {
    if (pages_.empty() || !own) return nullptr;
    const Pointer first = text + std::countr_zero(own);
    if ((*first & 0xF0) != 0xE0) return nullptr;
    const Page& page = pages_[static_cast<size_t>((*first & 15) << 5 | (first[1] & 0x3F) >> 1)];
    return page.script ? &page : nullptr;
  }

  // Adds the characters in `left` one by one. Returns false for a character of another script if `no_other`.
  bool classify_each(const Chunk& chunk, size_t i, uint64_t left, uint8_t& script, bool no_other) const {
    const Block& before = chunk.blocks[i - 1];
    Block &block = chunk.blocks[i], &after = chunk.blocks[i + 1];
    const Pointer text = chunk.text + (i - 1) * kBlock;
    const uint8_t* const classes = class_table();
    const uint8_t* const scripts = scripts_.empty() ? nullptr : scripts_.data();
    while (left) {
      const int place = std::countr_zero(left);
      Pointer p = text + place;
      const uint32_t point = decode(p);
      const auto size = static_cast<int>(p - (text + place));
      const uint64_t bytes = (uint64_t{1} << size) - 1, here = bytes << place;
      const uint64_t there = place + size > 64 ? bytes >> (64 - place) : 0;
      left &= ~here;
      block.inside |= here & (here << 1);
      after.inside |= there;
      uint8_t value = scripts ? scripts[point] : 0;
      const bool follows = (place ? block.script >> (place - 1) : before.script >> 63) & 1;
      if (is_joiner(value) && !(follows && goes_on(value, script))) value = 0;
      if (value) {
        if (no_other && !is_joiner(value) && value != script) return false;
        block.script |= here;
        after.script |= there;
        if (is_joiner(value)) continue;
        if (value != script) block.change |= uint64_t{1} << place;
        script = value;
      } else {
        block.of[classes[point]] |= here;
        after.of[classes[point]] |= there;
      }
    }
    return true;
  }

  // Finds the words around rough places.
  template <Base base>
  void smooth(const Chunk& chunk) const {
    const size_t size = static_cast<size_t>(chunk.end - chunk.text);
    size_t exact = 0, piece_end = 0;  // a certain start of a word; the start of the next word of a script
    for (size_t place = 0; (place = chunk.next(&Starts::rough, place)) < size; ) {
      size_t start = place <= exact ? exact : chunk.previous(&Starts::words, place);
      // A space after a line break begins a word only if the same white space has no later line break.
      while (start > exact && chunk.lines(start - 1) && !chunk.has(&Starts::scripts, start))
        start = chunk.previous(&Starts::words, start);
      if (chunk.has(&Starts::scripts, start)) start = chunk.next(&Starts::words, start + 1);
      if (piece_end <= start) piece_end = chunk.next(&Starts::scripts, start);
      for (bool again = true; again;) {
        const Pointer after = scan::next<base>(chunk.text + start, chunk.text + piece_end);
        const auto word_end = static_cast<size_t>(after - chunk.text);
        again = word_end < piece_end && (word_end <= place || !chunk.has(&Starts::words, word_end));
        for (size_t i = start + 1; i < word_end; i = (i / kBlock + 1) * kBlock) {
          const size_t last = std::min(word_end - i, kBlock - i % kBlock);
          chunk.starts[i / kBlock].words &= ~((~uint64_t{0} >> (kBlock - last)) << i % kBlock);
        }
        if (word_end < size) chunk.starts[word_end / kBlock].words |= uint64_t{1} << word_end % kBlock;
        start = word_end;
      }
      exact = start;
      place = std::max(place + 1, exact);
    }
  }

  // The words of a piece after the steps before `step`.
  template <Base base, class Emit>
  void steps(size_t step, Pointer p, Pointer end, Emit& emit) const {
    if (step == most_.size()) return base_words<base>(p, end, emit);
    const auto is_in = [&](uint32_t point) { return in_steps_[point] >> step & 1; };
    while (p < end) {
      const Pointer start = p;
      for (Pointer after = p; p < end && !is_in(*after < 0x80 ? *after++ : decode(after)); p = after) {
      }
      if (p > start) steps<base>(step + 1, start, p, emit);
      const Pointer first = p;
      size_t n = 0;
      for (Pointer after = p; p < end && n < most_[step] && is_in(*after < 0x80 ? *after++ : decode(after)); p = after) ++n;
      if (p > first) steps<base>(step + 1, first, p, emit);
    }
  }

  template <Base base, class Emit>
  static void base_words(Pointer p, Pointer end, Emit& emit) {
    while (p < end) {
      const Pointer after = scan::next<base>(p, end);
      emit(p, static_cast<size_t>(after - p));
      p = after;
    }
  }

  // The place of the next character of a script, or the end.
  Pointer next_letter(Pointer p, Pointer end) const {
    for (Pointer after = p; p < end; p = after) {
      const uint8_t value = *after < 0x80 ? (++after, uint8_t{0}) : scripts_[decode(after)];
      if (value != 0 && !is_joiner(value)) return p;
    }
    return end;
  }

  //  ?[X]+| ?[^ \t\n\r]|[ \t\n\r]
  template <class Emit>
  void sgpe_words(Pointer p, Pointer end, Emit& emit) const {
    const auto white = [](uint8_t byte) { return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r'; };
    while (p < end) {
      const Pointer start = p;
      if (white(*p) && (*p != ' ' || p + 1 == end || white(p[1]))) {
        ++p;
      } else {
        p += *p == ' ';
        const bool inside = scripts_[decode(p)];
        for (Pointer after = p; inside && p < end && scripts_[decode(after)]; p = after) {
        }
      }
      emit(start, static_cast<size_t>(p - start));
    }
  }

  bool sgpe_ = false;
  Base base_ = Base::kGpt2;
  std::vector<uint8_t> scripts_;   // by code point: number of the script or, after these, of the kind of joiner; 0: neither
  uint8_t last_script_ = 0;
  std::vector<std::array<bool, 256>> joins_;  // kind of joiner → script → whether it can be in words of the script
  std::vector<Page> pages_;        // 128 code points each, unused below U+0800; empty without scripts
  std::vector<uint8_t> in_steps_;  // by code point: a bit for each step with this character
  std::vector<size_t> most_;       // by step: the longest run to cut out
};

}  // namespace hf_sgpe
