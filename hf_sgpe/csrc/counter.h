// WordCounter and TextCounter: texts → word counts.

#pragma once

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scanner.h"
#include "special_tokens.h"
#include "table.h"

namespace hf_sgpe {

// The bucket of a word in files of counts: the upper bits of its CRC-32.
static constexpr uint32_t kBuckets = 1024;
inline uint32_t bucket_of(const uint8_t* word, size_t size) {
  static constexpr auto table = [] {
    std::array<uint32_t, 256> sums{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t value = byte;
      for (int bit = 0; bit < 8; ++bit) value = value & 1 ? value >> 1 ^ 0xEDB88320u : value >> 1;
      sums[byte] = value;
    }
    return sums;
  }();
  uint32_t sum = ~uint32_t{0};
  for (size_t i = 0; i < size; ++i) sum = sum >> 8 ^ table[(sum ^ word[i]) & 0xFF];
  return ~sum >> 22;
}

class WordCounter {
  using Short = ShortKey<2>;

 public:
  // `longest`: the most bytes of a word. Longer words of texts are cut into pieces of at most this size.
  explicit WordCounter(size_t longest = SIZE_MAX) : longest_(longest), seed_(hash_seed()) {}

  void add_text(const uint8_t* text, size_t size, const Scanner& scanner) {
    limit_ = text + size;
    scanner.words(text, size, *this);
    flush();
  }

  // Adds a word of a text. It is counted by the next `flush` at the latest, and its slot is prefetched until then.
  HF_SGPE_INLINE void operator()(const uint8_t* word, size_t size) {
    if (size > longest_) [[unlikely]] return add_pieces(word, size);
    Waiting& waiting = waiting_[count_++];
    waiting.start = word;
    waiting.size = size;
    if (size <= Short::kLongest) {
      waiting.key = Short::of(word, size, limit_);
      waiting.hash = waiting.key.hash(seed_);
      short_.prefetch(waiting.hash);
    } else {
      waiting.hash = hash_bytes(word, size, seed_);
      long_.prefetch_slot(waiting.hash);
    }
    if (count_ == kWaiting) flush();
  }

  void add(const uint8_t* word, size_t size, int64_t count) {
    if (size == 0) return;
    if (size <= Short::kLongest) {
      const Short key = Short::of(word, size, word + size);
      add_short(key.hash(seed_), key, count);
    } else {
      add_long(hash_bytes(word, size, seed_), word, size, count);
    }
  }

  void add(WordCounter& other) {
    other.each([this](const uint8_t* word, size_t size, int64_t count) { add(word, size, count); });
  }

  // Whether a long word was cut into pieces.
  bool has_cut() const { return has_cut_; }

  size_t size() const { return short_.size() + long_.size(); }

  // The peak memory in bytes while the words of `text` more bytes are added. In all languages, new words have at least four
  // bytes on average.
  size_t peak(size_t text) const { return short_.peak(text / 4 + 256) + long_.peak(text / Short::kLongest, text); }

  void clear() {
    short_.clear();
    long_.clear();
  }

  // Calls emit(word, size, count) for each word, in the order of the words' bytes.
  template <class Emit>
  void sorted(Emit&& emit) {
    sorted([](const uint8_t*, size_t) { return 0; }, emit);
  }

  // The words of the buckets first to last - 1, joined; the end of each word; the counts; and for each bucket, the number of
  // words up to its end. The order is that of a file of counts.
  struct Columns {
    std::vector<uint8_t> words;
    std::vector<int64_t> ends{0}, counts, bucket_ends;
  };
  Columns columns(uint32_t first, uint32_t last) {
    const auto group_of = [=](const uint8_t* word, size_t size) {
      const uint32_t bucket = bucket_of(word, size);
      return first <= bucket && bucket < last ? static_cast<int>(bucket) : -1;
    };
    if (first > last || last > kBuckets) throw std::invalid_argument("the buckets of words are numbered from 0 to 1023");
    Columns columns;
    columns.bucket_ends.resize(last - first);
    sorted(group_of, [&](const uint8_t* word, size_t size, int64_t count) {
      columns.words.insert(columns.words.end(), word, word + size);
      columns.ends.push_back(static_cast<int64_t>(columns.words.size()));
      columns.counts.push_back(count);
      ++columns.bucket_ends[bucket_of(word, size) - first];
    });
    std::partial_sum(columns.bucket_ends.begin(), columns.bucket_ends.end(), columns.bucket_ends.begin());
    return columns;
  }

 private:
  // `group_of`: the first sort key of a word; a word with a key below 0 is left out.
  template <class GroupOf, class Emit>
  void sorted(GroupOf&& group_of, Emit&& emit) {
    struct Entry {
      uint64_t start;  // the first eight bytes, which nearly always decide the order
      std::string_view word;
      int64_t count;
      int group;
    };
    std::vector<Entry> entries;
    size_t words = 0;
    each([&](const uint8_t* word, size_t n, int64_t) { words += group_of(word, n) >= 0; });
    entries.reserve(words);
    each([&](const uint8_t* word, size_t n, int64_t count) {
      const int group = group_of(word, n);
      if (group < 0) return;
      uint64_t start = 0;
      for (size_t i = 0; i < 8; ++i) start = start << 8 | (i < n ? word[i] : 0);
      entries.push_back({start, {reinterpret_cast<const char*>(word), n}, count, group});
    });
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      if (a.group != b.group) return a.group < b.group;
      return a.start != b.start ? a.start < b.start : a.word < b.word;
    });
    for (const Entry& entry : entries)
      emit(reinterpret_cast<const uint8_t*>(entry.word.data()), entry.word.size(), entry.count);
  }

  // Cut only between characters: the later bytes of a character begin with the bits 10.
  void add_pieces(const uint8_t* word, size_t size) {
    has_cut_ = true;
    while (size > longest_) {
      size_t piece = longest_;
      while ((word[piece] & 0xC0) == 0x80) --piece;
      (*this)(word, piece);
      word += piece;
      size -= piece;
    }
    (*this)(word, size);
  }

  void flush() {
    const size_t count = std::exchange(count_, 0);  // reset first, because memory can run out below
    for (size_t i = 0; i < count; ++i)
      if (waiting_[i].size > Short::kLongest) long_.prefetch_record(waiting_[i].hash);
    for (size_t i = 0; i < count; ++i) {
      const Waiting& waiting = waiting_[i];
      if (waiting.size <= Short::kLongest)
        add_short(waiting.hash, waiting.key, 1);
      else
        add_long(waiting.hash, waiting.start, waiting.size, 1);
    }
  }

  template <class Function>
  void each(Function&& function) {
    short_.each(function);
    long_.each([&](WordTable::Record& record) { function(record.key(), record.key_size, count_of(record)); });
  }

  static int64_t& count_of(WordTable::Record& record) { return *reinterpret_cast<int64_t*>(record.payload()); }

  HF_SGPE_INLINE void add_short(uint64_t hash, const Short& key, int64_t count) {
    if (int64_t* const known = short_.find(hash, key))
      *known += count;
    else
      short_.insert(hash, key, seed_) = count;
  }

  void add_long(uint64_t hash, const uint8_t* word, size_t size, int64_t count) {
    if (WordTable::Record* record = long_.find(hash, word, size)) {
      count_of(*record) += count;
      return;
    }
    if (size > UINT32_MAX) throw std::length_error("a word has more than 4 GB");
    count_of(*long_.insert(hash, word, size, sizeof(int64_t))) = count;
  }

  static constexpr size_t kWaiting = 32;
  struct Waiting {
    Short key;
    uint64_t hash;
    const uint8_t* start;
    size_t size;
  };
  ShortTable<Short, int64_t> short_;
  WordTable long_;
  const size_t longest_;
  bool has_cut_ = false;
  const uint64_t seed_;
  const uint8_t* limit_ = nullptr;
  Waiting waiting_[kWaiting];
  size_t count_ = 0;
};

// Counts the words of whole texts.
class TextCounter {
 public:
  // The scanner must outlive the counter.
  TextCounter(const Scanner& scanner, bool nfc, SpecialTokens special_tokens, size_t longest)
      : words(longest), scanner_(scanner), nfc_(nfc), special_tokens_(std::move(special_tokens)) {}

  // Returns false for a text that is left out: it contains surrogates or a special token, or NFC might change it.
  bool add(const Text& text) {
    const Utf8 utf8 = text.utf8(scratch_, nfc_);
    if (!utf8.plain || special_tokens_.in(utf8)) return false;
    words.add_text(utf8.data, utf8.size, scanner_);
    return true;
  }

  // Counts the words of a text without these checks.
  void add_prepared(const Text& text) {
    const Utf8 utf8 = text.utf8(scratch_, false);
    words.add_text(utf8.data, utf8.size, scanner_);
  }

  // Frees the buffer if a long text has made it large.
  void trim() { scratch_.shrink(size_t{1} << 24); }

  WordCounter words;

 private:
  const Scanner& scanner_;
  bool nfc_;
  SpecialTokens special_tokens_;
  Scratch scratch_;
};

}  // namespace hf_sgpe
