// Encoder: words → token ids, with a bounded memory of words.

#pragma once

#include <algorithm>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>

#include "merges.h"
#include "scanner.h"

namespace hf_sgpe {

// An array of ids whose memory is not cleared when it grows.
class Ids {
 public:
  const Id* data() const { return ids_.get(); }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  void clear() { size_ = 0; }

  // Where the next n ids go; call `grown` with the number written.
  HF_SGPE_INLINE Id* room(size_t n) {
    if (capacity_ - size_ < n) grow(n);
    return ids_.get() + size_;
  }
  void grown(size_t n) { size_ += n; }

  void append(const Id* ids, size_t n) {
    if (n) std::memcpy(room(n), ids, n * sizeof(Id));
    grown(n);
  }

 private:
  void grow(size_t n) {
    const size_t capacity = std::max(capacity_ * 2, std::max(size_ + n, size_t{256}));
    std::unique_ptr<Id[]> ids(new Id[capacity]);
    if (size_) std::memcpy(ids.get(), ids_.get(), size_ * sizeof(Id));
    ids_ = std::move(ids);
    capacity_ = capacity;
  }
  std::unique_ptr<Id[]> ids_;
  size_t size_ = 0, capacity_ = 0;
};

// The ids of words seen before, and buffers for encoding others. Only one thread may use it at a time.
struct Memory {
  template <int most>
  struct Few {  // the ids of a word that has at most so many
    int32_t n = 0;
    Id ids[most];
  };
  using Short = ShortKey<2>;   // of up to 15 bytes: most words of Latin script
  using Middle = ShortKey<4>;  // of up to 31 bytes: most others
  struct Character {
    Id ids[3];
    int32_t n = 0;  // 0: not computed yet
  };
  ShortTable<Short, Few<3>> short_words;
  ShortTable<Middle, Few<7>> middle_words;
  WordTable words;
  std::vector<Character> characters;  // by code point, up to U+FFFF
  Merger merger;
  Scratch scratch;
  std::vector<Id> ids;  // of one word
  Ids text_ids;
  uint64_t hits = 0, misses = 0;

  size_t bytes() const { return short_words.bytes() + middle_words.bytes() + words.bytes(); }
  size_t size() const { return short_words.size() + middle_words.size() + words.size(); }
  void forget() {
    short_words.clear();
    middle_words.clear();
    words.clear();
  }

  // Frees the buffers that an unusually long text or word has made large.
  void trim() {
    scratch.shrink(size_t{1} << 24);
    if (text_ids.capacity() > size_t{1} << 22) text_ids = Ids();
    if (ids.capacity() > size_t{1} << 20) ids = std::vector<Id>(), merger = Merger();
  }
};

class Encoder {
 public:
  // `byte_ids`: the token of each byte; -1 for a byte that has none and is left out.
  Encoder(std::vector<Id> byte_ids, size_t memory_bytes) : byte_ids_(std::move(byte_ids)), memory_bytes_(memory_bytes) {
    if (byte_ids_.size() != 256) throw std::invalid_argument("an encoder needs the ids of 256 bytes");
  }

  void add_merge(Id left, Id right, Id result) { table_.add(left, right, result); }
  // A word that becomes this token, whatever the merges say.
  void add_whole(std::string word, Id id) { whole_.emplace(std::move(word), id); }
  // Must be called after the last merge was added.
  void finish() {
    // Where a byte that begins characters is left out, what is left of its character lies beside the one before.
    const bool complete = std::none_of(byte_ids_.begin() + 0xC2, byte_ids_.begin() + 0xF5, [](Id id) { return id < 0; });
    within_characters_ = complete ? table_.within_characters(byte_ids_) : 0;
  }

  // Appends the ids of the words of a text to `out`.
  void text(const uint8_t* data, size_t size, const Scanner& scanner, Memory& memory, Ids& out) const {
    Pipeline pipeline(*this, memory, out, data + size);
    scanner.words(data, size, pipeline);
    pipeline.flush();
  }

  // Appends the ids of one word to `out`.
  void word(const uint8_t* data, size_t size, Memory& memory, Ids& out) const {
    Pipeline pipeline(*this, memory, out, data + size);
    pipeline(data, size);
    pipeline.flush();
  }

  // Puts the ids of one word into memory.ids.
  void merge(const uint8_t* data, size_t size, Memory& memory) const {
    memory.ids.clear();
    if (!whole_.empty()) {
      const auto whole = whole_.find(std::string_view(reinterpret_cast<const char*>(data), size));
      if (whole != whole_.end()) return memory.ids.push_back(whole->second);
    }
    memory.ids.resize(size);
    const size_t n = within_characters_ ? characters(data, size, memory) : bytes(data, size, memory.ids.data());
    if (!n) return memory.ids.clear();
    memory.ids.resize(memory.merger.merge(memory.ids.data(), n, table_));
  }

  static constexpr size_t kLongest = 256;  // longer words are rare, and would fill the memory

 private:
  struct Waiting {
    uint64_t hash;
    const uint8_t* start;
    size_t size;
  };

  // Words whose ids are not looked up yet: the processor fetches their slots in the tables while further words are scanned.
  class Pipeline {
   public:
    Pipeline(const Encoder& encoder, Memory& memory, Ids& out, const uint8_t* limit)
        : encoder_(encoder), memory_(memory), out_(out), limit_(limit), seed_(hash_seed()) {}

    HF_SGPE_INLINE void operator()(const uint8_t* word, size_t size) {
      Waiting& waiting = waiting_[count_++];
      waiting.start = word;
      waiting.size = size;
      if (size <= Memory::Short::kLongest) {
        waiting.hash = Memory::Short::of(word, size, limit_).hash(seed_);
        memory_.short_words.prefetch(waiting.hash);
      } else if (size <= Memory::Middle::kLongest) {
        waiting.hash = Memory::Middle::of(word, size, limit_).hash(seed_);
        memory_.middle_words.prefetch(waiting.hash);
      } else {
        waiting.hash = hash_bytes(word, size, seed_);
        memory_.words.prefetch_slot(waiting.hash);
      }
      if (count_ == kWaiting) flush();
    }

    void flush() {
      for (size_t i = 0; i < count_; ++i) {
        const Waiting& word = waiting_[i];
        if (word.size <= Memory::Short::kLongest)
          known<Memory::Short>(memory_.short_words, word);
        else if (word.size <= Memory::Middle::kLongest)
          known<Memory::Middle>(memory_.middle_words, word);
        else
          encoder_.rarer(word, word.hash, memory_, out_);
      }
      count_ = 0;
    }

   private:
    template <class Key, int most>
    HF_SGPE_INLINE void known(ShortTable<Key, Memory::Few<most>>& table, const Waiting& word) {
      const Key key = Key::of(word.start, word.size, limit_);
      if (const Memory::Few<most>* few = table.find(word.hash, key)) {
        ++memory_.hits;
        std::memcpy(out_.room(most), few->ids, sizeof few->ids);  // all of them: no branch on their number
        out_.grown(static_cast<size_t>(few->n));
        return;
      }
      if (!encoder_.rarer(word, hash_bytes(word.start, word.size, seed_), memory_, out_, most)) return;
      Memory::Few<most> few{static_cast<int32_t>(memory_.ids.size()), {}};
      std::copy(memory_.ids.begin(), memory_.ids.end(), few.ids);
      table.insert(word.hash, key, seed_) = few;
    }

    static constexpr size_t kWaiting = 32;
    const Encoder& encoder_;
    Memory& memory_;
    Ids& out_;
    const uint8_t* const limit_;
    const uint64_t seed_;
    Waiting waiting_[kWaiting];
    size_t count_ = 0;
  };

  // Appends the ids of a word that is not in the tables of shorter words. Returns true if it was not remembered and has at
  // most `few` ids: then the caller remembers memory.ids in its own table; otherwise they are remembered here.
  bool rarer(const Waiting& word, uint64_t hash, Memory& memory, Ids& out, size_t few = 0) const {
    if (WordTable::Record* record = word.size <= kLongest ? memory.words.find(hash, word.start, word.size) : nullptr) {
      ++memory.hits;
      out.append(reinterpret_cast<const Id*>(record->payload()), record->payload_size / sizeof(Id));
      return false;
    }
    ++memory.misses;
    merge(word.start, word.size, memory);
    const std::vector<Id>& ids = memory.ids;
    out.append(ids.data(), ids.size());
    if (word.size > kLongest) return false;
    // A full memory is emptied: the words of the current text come back at once, and those of earlier texts do not stay for
    // ever. Tables grow by doubling, so half of the room is kept free for that.
    if (memory.bytes() * 2 > memory_bytes_) memory.forget();
    if (ids.size() <= few) return true;
    WordTable::Record* record = memory.words.insert(hash, word.start, word.size, ids.size() * sizeof(Id));
    std::memcpy(record->payload(), ids.data(), ids.size() * sizeof(Id));
    return false;
  }

  size_t bytes(const uint8_t* data, size_t size, Id* ids) const {
    size_t n = 0;
    for (size_t i = 0; i < size; ++i) {
      ids[n] = byte_ids_[data[i]];
      n += byte_ids_[data[i]] >= 0;
    }
    return n;
  }

  // Applies the first merges to each character of a word by itself and puts the result into memory.ids. The word must be
  // well-formed UTF-8.
  size_t characters(const uint8_t* data, size_t size, Memory& memory) const {
    if (memory.characters.empty()) memory.characters.resize(0x10000);
    Id* out = memory.ids.data();
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
        known.n = static_cast<int32_t>(memory.merger.merge_short(known.ids, n, table_, within_characters_));
      }
      out = std::copy(known.ids, known.ids + known.n, out);
    }
    return static_cast<size_t>(out - memory.ids.data());
  }

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view word) const {
      return hash_bytes(reinterpret_cast<const uint8_t*>(word.data()), word.size(), hash_seed());
    }
  };

  MergeTable table_;
  std::unordered_map<std::string, Id, Hash, std::equal_to<>> whole_;
  std::vector<Id> byte_ids_;
  size_t memory_bytes_;
  int32_t within_characters_ = 0;  // how many of the first merges stay within characters
};

}  // namespace hf_sgpe
