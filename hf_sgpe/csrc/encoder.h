// Encoder: words → token ids, with a bounded cache of words.

#pragma once

#include <algorithm>
#include <iterator>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>

#include "merges.h"
#include "scanner.h"

namespace hf_sgpe {

// An array of ids that grows without clearing the new memory.
class Ids {
 public:
  const Id* data() const { return ids_.data(); }
  size_t size() const { return size_; }
  size_t capacity() const { return ids_.size(); }
  void clear() { size_ = 0; }

  // Room for the next n ids. Call `grown` with the number of ids written.
  HF_SGPE_INLINE Id* room(size_t n) {
    if (ids_.size() - size_ < n) ids_.resize(std::max(ids_.size() * 2, std::max(size_ + n, size_t{256})));
    return ids_.data() + size_;
  }
  void grown(size_t n) { size_ += n; }
  Id* at(size_t place) { return ids_.data() + place; }
  void shrink(size_t size) { size_ = size; }

  void append(const Id* ids, size_t n) {
    if (n) std::memcpy(room(n), ids, n * sizeof(Id));
    grown(n);
  }

 private:
  std::vector<Id, LargePages<Id>> ids_;
  size_t size_ = 0;
};

// A cache of the ids of words, and buffers for encoding. Only one thread may use it at a time.
struct Memory {
  template <int most>
  struct Few {  // the ids of a word; if n > most, ids[0] is their place in more_ids
    Id ids[most];
    int32_t n = 0;
  };
  using Short = ShortKey<2>;   // up to 15 bytes: most words of Latin script
  using Middle = ShortKey<4>;  // up to 31 bytes: most other words
  struct Character {
    Id ids[3];
    int32_t n = 0;  // 0: not computed yet
  };
  ShortTable<Short, Few<3>> short_words;
  ShortTable<Middle, Few<7>> middle_words;
  WordTable words;
  std::vector<Character> characters;  // by code point, up to U+FFFF
  Merger merger;
  Scratch scratch, changed;  // a text, and the text as it is encoded
  std::vector<Id> ids;       // of one word
  std::vector<Id> more_ids;
  Ids text_ids;
  uint64_t look_ups = 0, misses = 0;

  size_t bytes() const {
    return short_words.bytes() + middle_words.bytes() + words.bytes() + more_ids.capacity() * sizeof(Id);
  }
  size_t size() const { return short_words.size() + middle_words.size() + words.size(); }
  void forget() {
    short_words.clear();
    middle_words.clear();
    words.clear();
    more_ids = {};
  }

  // Frees buffers that an unusually long text or word has made large.
  void trim() {
    for (Scratch* text : {&scratch, &changed}) text->shrink(size_t{1} << 24);
    if (text_ids.capacity() > size_t{1} << 22) text_ids = Ids();
    if (ids.capacity() > size_t{1} << 20) ids = std::vector<Id>(), merger = Merger();
  }
};

class Encoder {
 public:
  // `byte_ids`: the token of each byte; -1 for a byte without a token, which is left out.
  Encoder(std::vector<Id> byte_ids, size_t memory_bytes) : byte_ids_(std::move(byte_ids)), memory_bytes_(memory_bytes) {
    if (byte_ids_.size() != 256) throw std::invalid_argument("an encoder needs the ids of 256 bytes");
  }

  void add_merge(Id left, Id right, Id result) {
    for (const Id id : {left, right, result}) check(id, "a merge");
    merges_.push_back({left, right, result});
  }
  // Adds the token of a character. If any is added, words begin as their characters instead of their bytes. A character
  // without a token begins as the tokens of its bytes.
  void add_character(const std::string& character, Id id) {
    check(id, "a character");
    const auto* p = reinterpret_cast<const uint8_t*>(character.data());
    const auto* const end = p + character.size();
    const uint32_t point = p < end ? decode(p) : 0;
    if (p != end || character.empty()) throw std::invalid_argument("a character must be the UTF-8 of one code point");
    if (character_ids_.size() <= point) character_ids_.resize(point + 1, -1);
    character_ids_[point] = id;
  }
  // Sets the token of a character without a token, which else begins as the tokens of its bytes. `fused`: whether a run of
  // such characters becomes one token.
  void set_unknown(Id id, bool fused) {
    check(id, "the unknown token");
    unknown_ = id;
    fuses_unknown_ = fused;
  }
  // Adds a word that becomes this token regardless of the merges.
  void add_whole(std::string word, Id id) { whole_.emplace(std::move(word), id); }
  // Must be called after the last merge is added.
  void finish() {
    table_.reserve(merges_.size());
    if (by_characters()) {
      for (const Id id : byte_ids_)
        if (id != -1) check(id, "a byte");
      for (const auto& [left, right, result] : merges_) table_.add(left, right, result);
      merges_ = {};
      return;
    }
    // The table has its own numbers for tokens.
    ids_.assign(byte_ids_.begin(), byte_ids_.end());
    for (const Merge& merge : merges_) ids_.push_back(merge.result);
    Id highest = *std::max_element(ids_.begin(), ids_.end());
    for (const Merge& merge : merges_) highest = std::max({highest, merge.left, merge.right});
    std::vector<Id> numbers(static_cast<size_t>(highest) + 1, -1);  // by id: the first of its numbers
    for (size_t number = ids_.size(); number-- > 0;)
      if (ids_[number] >= 0) numbers[static_cast<size_t>(ids_[number])] = static_cast<Id>(number);
    const auto number_of = [&](Id id) { return numbers[static_cast<size_t>(id)]; };
    for (const Merge& merge : merges_) table_.add(number_of(merge.left), number_of(merge.right), number_of(merge.result));
    // If the first byte of a character is left out, the rest of the character follows the character before it and may merge.
    const bool complete = std::none_of(byte_ids_.begin() + 0xC2, byte_ids_.begin() + 0xF5, [](Id id) { return id < 0; });
    within_characters_ = complete ? within_characters() : 0;
    merges_ = {};
  }

  bool by_characters() const { return !character_ids_.empty(); }

  // Appends the ids of one word to `out`.
  void word(const uint8_t* data, size_t size, Memory& memory, Ids& out) const {
    Pipeline pipeline(*this, memory, out, data + size);
    pipeline(data, size);
    pipeline.finish();
  }

  // Puts the ids of one word into memory.ids.
  void merge(const uint8_t* data, size_t size, Memory& memory) const {
    memory.ids.resize(size);
    Id* const ids = memory.ids.data();
    bool whole;
    size_t n = start(data, size, memory, ids, whole);
    if (!whole) finish_ids(ids, n = memory.merger.merge(ids, n, table_));
    memory.ids.resize(n);
  }

  static constexpr size_t kLongest = 256;  // longer words are rare, and would fill the memory

  // Words before their look-up: the processor prefetches their slots in the tables while more words are scanned.
  class Pipeline {
   public:
    Pipeline(const Encoder& encoder, Memory& memory, Ids& out, const uint8_t* limit)
        : encoder_(encoder), memory_(memory), out_(out), limit_(limit), seed_(hash_seed()) {}

    HF_SGPE_INLINE void operator()(const uint8_t* word, size_t size) {
      Waiting& waiting = *next_;
      waiting.start = word;
      waiting.size = size;
      if (size <= Memory::Short::kLongest) {
        waiting.short_key = Memory::Short::of(word, size, limit_);
        waiting.hash = waiting.short_key.hash(seed_);
        memory_.short_words.prefetch(waiting.hash);
      } else if (size <= Memory::Middle::kLongest) {
        waiting.middle_key = Memory::Middle::of(word, size, limit_);
        waiting.hash = waiting.middle_key.hash(seed_);
        memory_.middle_words.prefetch(waiting.hash);
      } else {
        waiting.hash = hash_bytes(word, size, seed_);
        memory_.words.prefetch_slot(waiting.hash);
      }
      if (++next_ == waiting_ + kWaiting) flush();
    }

    // Appends the id of a token that is not made of words.
    void token(Id id) {
      next_->hash = static_cast<uint64_t>(id);
      next_->size = kToken;
      if (++next_ == waiting_ + kWaiting) flush();
    }

    void flush() {
      const Waiting* const end = std::exchange(next_, waiting_);  // reset first, because memory can run out below
      memory_.look_ups += static_cast<size_t>(end - waiting_);
      Id* ids = out_.room(kMost * kWaiting);
      for (const Waiting* word = waiting_; word < end; ++word) {
        if (word->size <= Memory::Short::kLongest && copy(memory_.short_words.find(word->hash, word->short_key), ids)) continue;
        if (word->size > Memory::Short::kLongest && word->size <= Memory::Middle::kLongest &&
            copy(memory_.middle_words.find(word->hash, word->middle_key), ids))
          continue;
        out_.shrink(static_cast<size_t>(ids - out_.at(0)));
        append(*word);
        ids = out_.room(kMost * kWaiting);
      }
      out_.shrink(static_cast<size_t>(ids - out_.at(0)));
    }

    // Must be called after the last word.
    void finish() {
      flush();
      if (missed_count_) merge_missed();
    }

   private:
    struct alignas(64) Waiting {
      union {
        Memory::Short short_key;
        Memory::Middle middle_key;
      };
      uint64_t hash;
      const uint8_t* start;
      size_t size;
    };

    // Copies the ids of a word if they are few: all of `few`, without a branch on their number.
    template <int most>
    static HF_SGPE_INLINE bool copy(const Memory::Few<most>* few, Id*& ids) {
      if (!few || few->n > most) [[unlikely]] return false;
      std::memcpy(ids, few, sizeof *few);
      ids += few->n;
      return true;
    }

    // Appends the ids of any other word.
    void append(const Waiting& word) {
      const auto append_more = [&](const auto* few) {
        if (few) out_.append(memory_.more_ids.data() + few->ids[0], static_cast<size_t>(few->n));
        else miss(word);
      };
      if (word.size <= Memory::Short::kLongest) return append_more(memory_.short_words.find(word.hash, word.short_key));
      if (word.size <= Memory::Middle::kLongest) return append_more(memory_.middle_words.find(word.hash, word.middle_key));
      if (word.size == kToken) {
        --memory_.look_ups;
        *out_.room(1) = static_cast<Id>(word.hash);
        out_.grown(1);
      } else if (word.size > Merger::kSome) {
        encoder_.make_room(memory_);
        encoder_.merge(word.start, word.size, memory_);
        out_.append(memory_.ids.data(), memory_.ids.size());
      } else if (word.size > kLongest) {
        miss(word);
      } else if (WordTable::Record* const record = memory_.words.find(word.hash, word.start, word.size)) {
        out_.append(reinterpret_cast<const Id*>(record->payload()), record->payload_size / sizeof(Id));
      } else {
        miss(word);
      }
    }

    // Leaves room for the ids of a word that is not in the cache, because many such words are merged faster together.
    void miss(const Waiting& word) {
      missed_[missed_count_] = word;
      places_[missed_count_++] = out_.size();
      out_.room(word.size);
      out_.grown(word.size);
      if (missed_count_ == Merger::kTogether) merge_missed();
    }

    // Fills in the ids of these words, closes the gaps behind them, and puts them into the cache.
    void merge_missed() {
      const size_t count = std::exchange(missed_count_, 0), size = out_.size();
      Merger::Strand<Merger::kFew> few[Merger::kTogether];
      Merger::Strand<Merger::kSome>* const some = memory_.merger.some();
      size_t numbers[Merger::kTogether], end = places_[0], number_of_few = 0, number_of_some = 0;
      bool whole[Merger::kTogether];
      size_t* number_of[Merger::kTogether];
      for (size_t i = 0; i < count; ++i) {
        Id* const ids = out_.at(places_[i]);
        size_t& n = numbers[i] = encoder_.start(missed_[i].start, missed_[i].size, memory_, ids, whole[i]);
        const auto put_into = [&](auto& strand) {
          strand.ids = ids, strand.n = n;
          number_of[i] = &strand.n;
        };
        number_of[i] = &n;
        if (whole[i] || n < 2) continue;
        if (n <= Merger::kFew) put_into(few[number_of_few++]);
        else put_into(some[number_of_some++]);
      }
      Merger::merge_together(few, number_of_few, encoder_.table_);
      Merger::merge_together(some, number_of_some, encoder_.table_);
      for (size_t i = 0; i < count; ++i) {
        const Waiting& word = missed_[i];
        const size_t n = *number_of[i], next = places_[i] + word.size, last = i + 1 < count ? places_[i + 1] : size;
        Id* const ids = out_.at(end);
        std::memmove(ids, out_.at(places_[i]), n * sizeof(Id));
        if (!whole[i]) encoder_.finish_ids(ids, n);
        if (word.size <= Memory::Short::kLongest) remember(memory_.short_words, word, word.short_key, ids, n);
        else if (word.size <= Memory::Middle::kLongest) remember(memory_.middle_words, word, word.middle_key, ids, n);
        else if (word.size <= kLongest) remember_long(word, ids, n);
        else encoder_.make_room(memory_);
        std::memmove(ids + n, out_.at(next), (last - next) * sizeof(Id));
        end += n + last - next;
      }
      out_.shrink(end);
    }

    template <class Key, int most>
    void remember(ShortTable<Key, Memory::Few<most>>& table, const Waiting& word, const Key& key, const Id* ids, size_t n) {
      if (table.find(word.hash, key)) return;  // the word was missed twice
      encoder_.make_room(memory_);
      Memory::Few<most> few{{}, static_cast<int32_t>(n)};
      if (n <= most) {
        std::copy(ids, ids + n, few.ids);
      } else {
        few.ids[0] = static_cast<Id>(memory_.more_ids.size());
        memory_.more_ids.insert(memory_.more_ids.end(), ids, ids + n);
      }
      table.insert(word.hash, key, seed_) = few;
    }

    void remember_long(const Waiting& word, const Id* ids, size_t n) {
      if (memory_.words.find(word.hash, word.start, word.size)) return;
      encoder_.make_room(memory_);
      WordTable::Record* const record = memory_.words.insert(word.hash, word.start, word.size, n * sizeof(Id));
      std::memcpy(record->payload(), ids, n * sizeof(Id));
    }

    static constexpr size_t kWaiting = 128, kToken = SIZE_MAX;
    static constexpr size_t kMost = 8;  // ids that are copied for a word
    const Encoder& encoder_;
    Memory& memory_;
    Ids& out_;
    const uint8_t* const limit_;
    const uint64_t seed_;
    Waiting waiting_[kWaiting], missed_[Merger::kTogether];
    size_t places_[Merger::kTogether];  // of the missed words among the ids
    Waiting* next_ = waiting_;
    size_t missed_count_ = 0;
  };

 private:
  static void check(Id id, const char* owner) {
    if (id < 0 || id >= MergeTable::kNoId)
      throw std::invalid_argument(std::string(owner) + " has an id that is not between 0 and 2**21 - 2");
  }

  // Writes the ids with which a word begins, at most one for each byte, and returns their number. `whole`: whether the word is
  // a token regardless of the merges.
  size_t start(const uint8_t* data, size_t size, Memory& memory, Id* ids, bool& whole) const {
    if (!whole_.empty()) {
      const auto known = whole_.find(std::string_view(reinterpret_cast<const char*>(data), size));
      if ((whole = known != whole_.end())) return *ids = known->second, 1;
    }
    whole = false;
    return by_characters()      ? characters(data, size, ids)
           : within_characters_ ? merged_characters(data, size, memory, ids)
                                : bytes(data, size, ids);
  }

  // Replaces n of the table's numbers by ids.
  void finish_ids(Id* ids, size_t n) const {
    if (by_characters()) return;  // the table's numbers are the ids
    for (Id* id = ids; id < ids + n; ++id) *id = ids_[static_cast<size_t>(*id)];
  }

  // Called for each word that is not in the cache. A full cache is emptied: the words of the current text return at once, and
  // words of earlier texts do not stay forever. Tables double when they grow, so half of the memory is kept free for this.
  void make_room(Memory& memory) const {
    ++memory.misses;
    if (memory.bytes() * 2 > memory_bytes_) memory.forget();
  }

  size_t bytes(const uint8_t* data, size_t size, Id* ids) const {
    size_t n = 0;
    for (size_t i = 0; i < size; ++i) {
      ids[n] = data[i];
      n += byte_ids_[data[i]] >= 0;
    }
    return n;
  }

  // The ids of the characters of a word of well-formed UTF-8, before any merge.
  size_t characters(const uint8_t* data, size_t size, Id* ids) const {
    const Id* const first = ids;
    bool known = true;
    for (const uint8_t *p = data, *const end = data + size; p < end;) {
      const uint8_t* start = p;
      const uint32_t point = decode(p);
      const bool before = std::exchange(known, point < character_ids_.size() && character_ids_[point] >= 0);
      if (known)
        *ids++ = character_ids_[point];
      else if (unknown_ < 0)
        ids += bytes_in_ids(start, p, ids);
      else if (before || !fuses_unknown_)
        *ids++ = unknown_;
    }
    return static_cast<size_t>(ids - first);
  }

  // The ids of the bytes of a character, without those that have none.
  size_t bytes_in_ids(const uint8_t* data, const uint8_t* end, Id* ids) const {
    const Id* const first = ids;
    for (; data < end; ++data)
      if (byte_ids_[*data] >= 0) *ids++ = byte_ids_[*data];
    return static_cast<size_t>(ids - first);
  }

  // The number of first merges whose results are parts of a single character and are not results of later merges. They can be
  // applied to each character separately, before all other merges.
  int32_t within_characters() const {
    std::unordered_map<Id, std::vector<uint8_t>> parts;
    for (int byte = 0x80; byte < 256; ++byte) parts[byte_ids_[byte]] = {static_cast<uint8_t>(byte)};
    size_t count = 0;
    for (const auto& [left, right, result] : merges_) {
      const auto a = parts.find(left), b = parts.find(right);
      if (a == parts.end() || b == parts.end() || parts.contains(result)) break;
      std::vector<uint8_t> joined = a->second;
      joined.insert(joined.end(), b->second.begin(), b->second.end());
      const auto begins = [](uint8_t byte) { return byte >= 0xC0; };
      if (joined.size() > 4 || std::any_of(joined.begin() + 1, joined.end(), begins)) break;
      parts[result] = std::move(joined);
      ++count;
    }
    // If a later merge makes a token again, this token could take part in the first merges.
    const auto again = [&](const Merge& merge) { return parts.contains(merge.result); };
    const auto later = std::span(merges_).subspan(count);
    return std::any_of(later.begin(), later.end(), again) ? 0 : static_cast<int32_t>(count);
  }

  // Applies the first merges to each character of a word separately. The word must be well-formed UTF-8.
  size_t merged_characters(const uint8_t* data, size_t size, Memory& memory, Id* ids) const {
    if (memory.characters.empty()) memory.characters.resize(0x10000);
    Id* out = ids;
    for (const uint8_t *p = data, *const end = data + size; p < end;) {
      const uint8_t* const start = p;
      const uint32_t point = *p < 0x80 ? *p++ : decode(p);
      if (point < 0x80 || point > 0xFFFF) {
        out += bytes(start, static_cast<size_t>(p - start), out);
        continue;
      }
      Memory::Character& known = memory.characters[point];
      if (!known.n) {
        const size_t n = bytes(start, static_cast<size_t>(p - start), known.ids);
        known.n = static_cast<int32_t>(Merger::merge_below(known.ids, n, table_, within_characters_));
      }
      out = std::copy(known.ids, known.ids + known.n, out);
    }
    return static_cast<size_t>(out - ids);
  }

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view word) const {
      return hash_bytes(reinterpret_cast<const uint8_t*>(word.data()), word.size(), hash_seed());
    }
  };

  struct Merge {
    Id left, right, result;
  };
  std::vector<Merge> merges_;  // until finish()
  MergeTable table_;
  std::vector<Id> ids_;            // by the table's number of a token, which is the id itself if words begin as characters
  std::vector<Id> character_ids_;  // by code point, -1 without a token; empty if words begin as bytes
  std::unordered_map<std::string, Id, Hash, std::equal_to<>> whole_;
  std::vector<Id> byte_ids_;
  size_t memory_bytes_;
  Id unknown_ = -1;
  bool fuses_unknown_ = false;
  int32_t within_characters_ = 0;  // number of first merges within characters
};

}  // namespace hf_sgpe
