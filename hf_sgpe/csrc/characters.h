// Properties of characters: their classes in split patterns, and their possible changes by NFC.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <vector>

#include "compiler.h"

namespace hf_sgpe {

enum Class : uint8_t {
  kOther = 0,    // [^\s\p{L}\p{N}] without marks
  kUpper = 1,    // \p{Lu} \p{Lt}
  kLower = 2,    // \p{Ll}
  kLetter = 3,   // \p{Lm} \p{Lo}
  kMark = 4,     // \p{M}
  kNumber = 5,   // \p{N}
  kSpace = 6,    // \s without \r and \n
  kNewline = 7,  // \r \n
};

constexpr unsigned bit(unsigned klass) { return 1u << klass; }

constexpr unsigned kLetters = bit(kUpper) | bit(kLower) | bit(kLetter);
constexpr unsigned kSpaces = bit(kSpace) | bit(kNewline);
constexpr unsigned kPunctuation = bit(kOther) | bit(kMark);

constexpr size_t kCodePoints = 0x110000;

struct ClassRun {
  uint32_t first, last;
  uint8_t klass;
};
struct NfcRun {
  uint32_t first, last;
  uint8_t kind, combining;
};
struct NfcPair {
  uint32_t first, second;
};
struct CodeRange {
  uint32_t first, last;
};

#include "character_tables.inc"

// A flat table of 1.1 MB with one byte per code point. A text uses only the few pages of its scripts.
inline const std::unique_ptr<const uint8_t[]> kClassTable = [] {
  auto filled = std::make_unique<uint8_t[]>(kCodePoints);
  for (const ClassRun& run : kClassRuns)
    for (uint32_t point = run.first; point <= run.last; ++point) filled[point] = run.klass;
  return filled;
}();

inline const uint8_t* class_table() { return kClassTable.get(); }

// The possible changes of each character by NFC.
class NfcTable {
 public:
  struct Entry {
    uint8_t kind = 0;  // 0: unchanged; 1: replaced; 2: may compose with a character before it; 3: may only be reordered
    uint8_t combining = 0;
    uint32_t first = 0, last = 0;  // range of characters that may compose with this one
  };

  NfcTable() {
    for (const NfcRun& run : kNfcRuns)
      for (uint32_t point = run.first; point <= run.last; ++point) kinds_[point] = entry_of(run, point);
    for (const CodeRange& range : kDecomposing)
      for (uint32_t point = range.first; point <= range.last; ++point) decomposes_[point] = true;
    for (uint32_t point = 0; point < kCodePoints; ++point) {
      const Entry& entry = (*this)[point];
      if (entry.kind == 1 || (point >= 0xD800 && point < 0xE000)) roles_[point] = kAlways;
      if (entry.kind > 1) roles_[point] = group_of(point);
      if (entry.combining || decomposes_[point] || is_hangul_first(point)) roles_[point] |= kGroups << 8;
    }
    for (const NfcPair& pair : kNfcPairs) {
      roles_[pair.first] |= static_cast<uint16_t>(group_of(pair.second) << 8);
      size_t slot = pair_slot(pair_key(pair.first, pair.second));
      while (pairs_[slot]) slot = (slot + 1) % kPairSlots;
      pairs_[slot] = pair_key(pair.first, pair.second);
    }
  }

  bool touches(uint32_t point) const { return kinds_[point] != 0; }
  bool decomposes(uint32_t point) const { return decomposes_[point]; }
  // A fast test for nearly all characters: if `role & (role before >> 8 | kAlways)` is 0, the character is not a surrogate and
  // NFC does not change it. The lower byte has the group of a character that may compose with the one before; the upper byte
  // has the groups that may compose with this character.
  const uint16_t* roles() const { return roles_.get(); }
  static constexpr unsigned kAlways = 0x80, kGroups = 0x7F, kAtStart = kGroups << 8;
  const Entry& operator[](uint32_t point) const { return entries_[kinds_[point]]; }

  bool composes(uint32_t first, uint32_t second) const {
    const Entry& entry = (*this)[second];
    if (first < entry.first || first > entry.last) return false;
    if (is_hangul(second)) return true;
    const uint64_t key = pair_key(first, second);
    for (size_t slot = pair_slot(key);; slot = (slot + 1) % kPairSlots) {
      if (pairs_[slot] == key) return true;
      if (pairs_[slot] == 0) return false;
    }
  }

 private:
  static constexpr size_t kPairSlots = 4096;
  static_assert(std::size(kNfcPairs) * 2 < kPairSlots);

  static uint64_t pair_key(uint32_t first, uint32_t second) { return uint64_t{first} << 32 | second; }
  static size_t pair_slot(uint64_t key) { return key * 0x9E3779B97F4A7C15u >> 52; }
  static uint16_t group_of(uint32_t point) { return static_cast<uint16_t>(1u << point % 7); }
  static bool is_hangul_first(uint32_t point) {
    return (point >= 0x1100 && point <= 0x1112) || (point >= 0xAC00 && point <= 0xD7A3);
  }
  static bool is_hangul(uint32_t second) { return second >= 0x1161 && second <= 0x11C2; }

  uint8_t entry_of(const NfcRun& run, uint32_t point) {
    Entry wanted{run.kind, run.combining};
    if (run.kind == 2 && is_hangul(point)) {
      wanted.first = point <= 0x1175 ? 0x1100 : 0xAC00;
      wanted.last = point <= 0x1175 ? 0x1112 : 0xD7A3;
    } else if (run.kind == 2) {
      wanted.first = UINT32_MAX;
      for (const NfcPair& pair : kNfcPairs)
        if (pair.second == point) wanted.first = std::min(wanted.first, pair.first), wanted.last = std::max(wanted.last, pair.first);
    }
    for (int i = 1; i < used_; ++i)
      if (entries_[i].kind == wanted.kind && entries_[i].combining == wanted.combining &&
          entries_[i].first == wanted.first && entries_[i].last == wanted.last)
        return static_cast<uint8_t>(i);
    if (used_ == 256) throw std::length_error("NfcTable has room for 256 kinds of characters");
    entries_[used_] = wanted;
    return static_cast<uint8_t>(used_++);
  }

  std::unique_ptr<uint8_t[]> kinds_ = std::make_unique<uint8_t[]>(kCodePoints);  // index of entries_
  std::unique_ptr<uint16_t[]> roles_ = std::make_unique<uint16_t[]>(kCodePoints);
  std::vector<bool> decomposes_ = std::vector<bool>(kCodePoints);
  Entry entries_[256];
  int used_ = 1;
  std::unique_ptr<uint64_t[]> pairs_ = std::make_unique<uint64_t[]>(kPairSlots);  // open addressing; 0: empty
};

inline const NfcTable kNfcTable;

// Whether NFC leaves the character at `i` unchanged and in its place, for a character that NFC may touch. True is always right.
// False may be wrong, because the library's normalizer then decides.
template <class Character>
bool nfc_stays(const Character* text, size_t i) {
  const NfcTable::Entry& entry = kNfcTable[text[i]];
  if (entry.kind == 1) return false;
  // Find the last character of combining class 0 before it, which is never far away in real text.
  constexpr size_t kFar = 32;
  size_t starter = i;
  do {
    if (starter == 0) return entry.kind == 3 && i == 0;
    if (i - --starter > kFar) return false;
  } while (kNfcTable[text[starter]].combining != 0);
  if (entry.combining != 0 && starter + 1 < i && entry.combining < kNfcTable[text[i - 1]].combining) return false;
  return entry.kind != 2 || !(kNfcTable.composes(text[starter], text[i]) || kNfcTable.decomposes(text[starter]));
}

}  // namespace hf_sgpe
