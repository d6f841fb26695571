// The named split patterns, as functions that return the end of the word at a place.
//
// Each function has the same result as its regex, without backtracking. `SPLIT_PATTERNS` in patterns.py is the specification.
// A word is the match of the first alternative that matches, which is not always the longest. Each character is read a bounded
// number of times.

#pragma once

#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "characters.h"
#include "text.h"

namespace hf_sgpe {

enum class Base { kGpt2, kCl100k, kQwen2, kQwen35, kAnySpace, kTypographic, kO200k, kTekken, kBloom };

namespace scan {

using Pointer = const uint8_t*;

inline unsigned class_at(Pointer p) { return class_table()[decode(p)]; }

// The length of the run of bytes from `p` on that are between the ASCII characters `first` and `last` after `| fold`.
template <uint8_t first, uint8_t last, uint8_t fold>
inline size_t ascii_run(Pointer p, Pointer end) {
  Pointer q = p;
#if HF_SGPE_SSE2
  while (end - q >= 16) {
    const __m128i bytes = _mm_or_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(q)), _mm_set1_epi8(fold));
    const __m128i from_first = _mm_sub_epi8(bytes, _mm_set1_epi8(first));
    const __m128i inside = _mm_cmpeq_epi8(_mm_min_epu8(from_first, _mm_set1_epi8(last - first)), from_first);
    const unsigned outside = ~static_cast<unsigned>(_mm_movemask_epi8(inside)) & 0xFFFF;
    if (outside) return static_cast<size_t>(q - p) + static_cast<size_t>(std::countr_zero(outside));
    q += 16;
  }
#endif
  while (q < end && static_cast<uint8_t>((*q | fold) - first) <= last - first) ++q;
  return static_cast<size_t>(q - p);
}

// The end of the run of characters whose classes are in `mask`.
template <unsigned mask>
inline Pointer run(Pointer p, Pointer end) {
  const uint8_t* const classes = class_table();
  while (p < end) {
    if (*p < 0x80) {
      if constexpr (mask == kLetters) {
        const size_t letters = ascii_run<'a', 'z', 0x20>(p, end);
        p += letters;
        if (p == end || *p < 0x80) return p;
        continue;
      }
      if (!(mask >> classes[*p] & 1)) return p;
      ++p;
    } else {
      Pointer after = p;
      if (!(mask >> classes[decode(after)] & 1)) return p;
      p = after;
    }
  }
  return p;
}

// The length of the s, t, re, ve, m, ll or d of a contraction, after its apostrophe; 0 if this is not a contraction.
template <bool ignore_case>
inline size_t contraction(Pointer p, Pointer end) {
  if (p == end) return 0;
  constexpr uint8_t fold = ignore_case ? 0x20 : 0;
  const auto first = static_cast<uint8_t>(*p | fold);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 1;
  if (end - p < 2) return 0;
  if (ignore_case && p[0] == 0xC5 && p[1] == 0xBF) return 2;  // U+017F folds to s
  const auto second = static_cast<uint8_t>(p[1] | fold);
  return (first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l') ? 2 : 0;
}

// \s*[\r\n]+ (if `lines`), or else \s+(?!\S)|\s+. There is white space at p.
template <bool lines>
inline Pointer white_space(Pointer p, Pointer end) {
  const uint8_t* const classes = class_table();
  Pointer last = p, after_line = nullptr, q = p;
  while (q < end) {
    Pointer after = q;
    const unsigned klass = classes[decode(after)];
    if (!(kSpaces >> klass & 1)) break;
    last = q;
    q = after;
    if (klass == kNewline) after_line = after;
  }
  if (lines && after_line) return after_line;
  return q == end || last == p ? q : last;
}

inline Pointer digits(Pointer p, Pointer end, int most) {
  for (int i = 0; i < most && p < end && class_at(p) == kNumber; ++i) decode(p);
  return p;
}

// The end of a word of the most frequent form: an optional space and ASCII letters before another ASCII character except an
// apostrophe. If `lower`, all letters but the first are in lower case. Null for any other word.
template <bool lower>
HF_SGPE_INLINE Pointer plain_word(Pointer p, Pointer end) {
  const Pointer word = p + (*p == ' ');
  Pointer q = word;
  if (lower) {
    q += q < end && static_cast<uint8_t>((*q | 0x20) - 'a') <= 'z' - 'a';
    q += ascii_run<'a', 'z', 0>(q, end);
    // A single capital may belong to the characters after it.
    if (q - word < 2) return nullptr;
  } else {
    q += ascii_run<'a', 'z', 0x20>(q, end);
    if (q == word) return nullptr;
  }
  return q < end && *q < 0x80 && *q != '\'' ? q : nullptr;
}

inline Pointer gpt2(Pointer p, Pointer end) {
  if (const Pointer word = plain_word<false>(p, end)) return word;
  if (*p == '\'')
    if (const size_t length = contraction<false>(p + 1, end)) return p + 1 + length;
  const Pointer word = p + (*p == ' ' && p + 1 < end);
  const unsigned klass = class_at(word);
  if (kLetters >> klass & 1) return run<kLetters>(word, end);
  if (klass == kNumber) return run<bit(kNumber)>(word, end);
  if (kPunctuation >> klass & 1) return run<kPunctuation>(word, end);
  return white_space<false>(p, end);
}

// `any_space`: punctuation may begin with any white space. `typographic`: contractions may also have the apostrophe U+2019.
// `marks`: combining marks count as letters, except a mark at the start of a word in place of a space.
template <int most_digits, bool any_space = false, bool typographic = false, bool marks = false>
inline Pointer cl100k(Pointer p, Pointer end) {
  constexpr unsigned letters = kLetters | (marks ? bit(kMark) : 0);
  constexpr unsigned punctuation = kPunctuation & ~(marks ? bit(kMark) : 0);
  if (const Pointer word = plain_word<false>(p, end)) return word;
  Pointer after = p;
  const uint32_t point = decode(after);
  const unsigned klass = class_table()[point];
  if (letters >> klass & 1) return run<letters>(after, end);
  if (klass == kNumber) return digits(after, end, most_digits - 1);
  if (point == '\'' || (typographic && point == 0x2019))
    if (const size_t length = contraction<true>(after, end)) return after + length;
  const unsigned next = after < end ? class_at(after) : unsigned{kNewline};
  if (klass != kNewline && letters >> next & 1) return run<letters>(after, end);
  const bool space_before = any_space ? (kSpaces >> klass & 1) : point == ' ';
  if (punctuation >> klass & 1 || (space_before && after < end && punctuation >> next & 1))
    return run<bit(kNewline)>(run<punctuation>(after, end), end);
  return white_space<true>(p, end);
}

// The end of [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+ at p, or null. `capitals` becomes the end of the
// longest match of the first part.
inline Pointer o200k_lower_word(Pointer p, Pointer end, Pointer& capitals) {
  const uint8_t* const classes = class_table();
  constexpr unsigned either = bit(kLetter) | bit(kMark);
  Pointer after_either = nullptr;
  for (;;) {
    p += ascii_run<'A', 'Z', 0>(p, end);
    if (p == end || *p < 0x80) break;
    Pointer after = p;
    const unsigned klass = classes[decode(after)];
    if (!((either | bit(kUpper)) >> klass & 1)) break;
    p = after;
    if (either >> klass & 1) after_either = p;
  }
  capitals = p;
  if (p == end || class_at(p) != kLower) return after_either;  // the first part backtracks to the last character of both parts
  for (;;) {
    p += ascii_run<'a', 'z', 0>(p, end);
    if (p == end || *p < 0x80) return p;
    Pointer after = p;
    if (!((either | bit(kLower)) >> classes[decode(after)] & 1)) return p;
    p = after;
  }
}

template <bool contractions>
inline Pointer o200k_suffix(Pointer p, Pointer end) {
  if (contractions && p < end && *p == '\'')
    if (const size_t length = contraction<true>(p + 1, end)) return p + 1 + length;
  return p;
}

template <int most_digits = 3, bool contractions = true>
inline Pointer o200k(Pointer p, Pointer end) {
  if (const Pointer word = plain_word<true>(p, end)) return word;
  Pointer after = p;
  const uint32_t point = decode(after);
  const unsigned klass = class_table()[point];
  if (klass == kNumber) return digits(after, end, most_digits - 1);
  const bool prefix = !((kLetters | bit(kNewline)) >> klass & 1);
  const bool letter = (kLetters | bit(kMark)) >> klass & 1;
  Pointer capitals = p, capitals_after_prefix = after;
  // The order of the pattern: with lower case, then without; each with the optional first character, then without.
  if (prefix)
    if (const Pointer word = o200k_lower_word(after, end, capitals_after_prefix)) return o200k_suffix<contractions>(word, end);
  if (letter)
    if (const Pointer word = o200k_lower_word(p, end, capitals)) return o200k_suffix<contractions>(word, end);
  if (prefix && capitals_after_prefix > after) return o200k_suffix<contractions>(capitals_after_prefix, end);
  if (letter) return o200k_suffix<contractions>(capitals, end);
  const bool space_before = point == ' ' && after < end && kPunctuation >> class_at(after) & 1;
  if (kPunctuation >> klass & 1 || space_before) {
    Pointer q = run<kPunctuation>(after, end);
    while (q < end && (*q == '\r' || *q == '\n' || *q == '/')) ++q;
    return q;
  }
  return white_space<true>(p, end);
}

inline bool in_bloom_word(uint32_t point) {
  switch (point) {
    case '(': case '|': case '.': case ',': case '!': case '?': case ')':
    case 0x2026: case 0x3002: case 0xFF0C: case 0x3001: case 0x0964: case 0x06D4: case 0x060C:
      return false;
    default: return !(kSpaces >> class_table()[point] & 1);
  }
}

inline bool bloom_word_at(Pointer p, Pointer end) {
  if (*p == ' ' && ++p == end) return false;
  return in_bloom_word(decode(p));
}

inline Pointer bloom(Pointer p, Pointer end) {
  if (bloom_word_at(p, end)) {
    ++p;  // a space, or the first byte of a character
    while (p < end && (*p & 0xC0) == 0x80) ++p;
    for (Pointer after = p; p < end && in_bloom_word(decode(after)); p = after) {
    }
    return p;
  }
  do decode(p);
  while (p < end && !bloom_word_at(p, end));
  return p;
}

template <Base base>
inline Pointer next(Pointer p, Pointer end) {
  if constexpr (base == Base::kGpt2) return gpt2(p, end);
  if constexpr (base == Base::kCl100k) return cl100k<3>(p, end);
  if constexpr (base == Base::kQwen2) return cl100k<1>(p, end);
  if constexpr (base == Base::kQwen35) return cl100k<1, false, false, true>(p, end);
  if constexpr (base == Base::kAnySpace) return cl100k<3, true>(p, end);
  if constexpr (base == Base::kTypographic) return cl100k<3, true, true>(p, end);
  if constexpr (base == Base::kO200k) return o200k(p, end);
  if constexpr (base == Base::kTekken) return o200k<1, false>(p, end);
  if constexpr (base == Base::kBloom) return bloom(p, end);
}

}  // namespace scan

}  // namespace hf_sgpe
