// ShortTable and WordTable: byte strings → values, which are counts or remembered ids.

#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "text.h"

namespace hf_sgpe {

// Random in each process, so that nobody can prepare colliding words. No result depends on it.
inline uint64_t hash_seed() {
  static const uint64_t seed = [] {
    std::random_device device;
    return uint64_t{device()} << 32 | device();
  }();
  return seed;
}

HF_SGPE_INLINE uint64_t hash_bytes(const uint8_t* p, size_t n, uint64_t seed) {
  constexpr uint64_t k1 = 0xA0761D6478BD642Fu, k2 = 0xE7037ED1A0B428DBu;
  uint64_t state = seed;
  uint8_t few[16] = {};
  size_t left = n;
  for (; left > 16; left -= 16, p += 16) state = mix(load8(p) ^ k1, load8(p + 8) ^ state);
  if (n < 16) std::memcpy(few, p, n);
  const uint8_t* const last = n < 16 ? few : p + left - 16;
  return mix(k2 ^ n, mix(load8(last) ^ k1, load8(last + 8) ^ state));
}

// A string of 1 to 8 * words - 1 bytes in registers: the bytes, padded with zeros, and their number in the last byte.
template <int words>
struct ShortKey {
  static constexpr size_t kLongest = 8 * words - 1;

  alignas(16) uint64_t word[words];

  // Memory is readable up to `limit`. Keys of four words need more than 15 bytes.
  static HF_SGPE_INLINE ShortKey of(const uint8_t* p, size_t n, const uint8_t* limit) {
    uint8_t copy[8 * words];
    if (limit - p < 8 * words) [[unlikely]] {
      std::memset(copy, 0, sizeof copy);
      std::memcpy(copy, p, n);
      p = copy;
    }
    ShortKey key;
    constexpr int first = words - 2;
    for (int i = 0; i < first; ++i) key.word[i] = load8(p + 8 * i);
    const size_t left = n - 8 * first;
#if HF_SGPE_SSE2
    const auto load = [](const uint8_t* from) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); };
    const __m128i bytes = _mm_and_si128(load(p + 8 * first), load(kWindow + 16 - left));
    const __m128i length = _mm_slli_si128(_mm_cvtsi32_si128(static_cast<int>(n)), 15);
    _mm_store_si128(reinterpret_cast<__m128i*>(key.word + first), _mm_or_si128(bytes, length));
#else
    const size_t low = left < 8 ? left : 8, high = left - low;
    key.word[first] = low ? load8(p + 8 * first) & (~uint64_t{0} >> (64 - 8 * low)) : 0;
    key.word[first + 1] = (load8(p + 8 * first + 8) & ((uint64_t{1} << 8 * high) - 1)) | static_cast<uint64_t>(n) << 56;
#endif
    return key;
  }

  size_t size() const { return word[words - 1] >> 56; }
  HF_SGPE_INLINE uint64_t hash(uint64_t seed) const {
    uint64_t state = seed;
    for (int i = 0; i < words; i += 2) state = mix(word[i] ^ state, word[i + 1] ^ 0xE7037ED1A0B428DBu);
    return state;
  }
  HF_SGPE_INLINE bool operator==(const ShortKey& other) const {
    uint64_t difference = 0;
    for (int i = 0; i < words; ++i) difference |= word[i] ^ other.word[i];
    return difference == 0;
  }

 private:
  // From place 16 - n on, exactly n bytes are set.
  static constexpr uint8_t kWindow[32] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
};

// The peak number of old and new slots in memory while a table grows to `keys` keys.
inline size_t peak_slots(size_t slots, size_t keys) {
  if (keys * 2 <= slots) return slots;
  while (keys * 2 > slots) slots *= 2;
  return slots + slots / 2;
}

// Open addressing. Short keys and small values are together, so that a look-up reads one cache line.
template <class Key, class Value>
class ShortTable {
 public:
  ShortTable() : slots_(kFirst) {}

  size_t size() const { return size_; }
  size_t bytes() const { return slots_.size() * sizeof(Slot); }

  // The peak memory in bytes while `more` keys are added.
  size_t peak(size_t more) const { return peak_slots(slots_.size(), size_ + more) * sizeof(Slot); }
  void prefetch(uint64_t hash) const { prefetch_line(&slots_[hash & mask_]); }

  // Returns the value of a key, or null.
  HF_SGPE_INLINE Value* find(uint64_t hash, const Key& key) {
    const size_t mask = mask_;
    Slot* const slots = slots_.data();
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
      if (slots[i].key == key) return &slots[i].value;
      if (slots[i].key.size() == 0) return nullptr;
    }
  }

  // Adds a new key. Other values move.
  Value& insert(uint64_t hash, const Key& key, uint64_t seed) {
    if (++size_ * 2 > slots_.size()) {
      Slots old(slots_.size() * 2);
      old.swap(slots_);
      mask_ = slots_.size() - 1;
      for (const Slot& slot : old)
        if (slot.key.size()) *empty(slot.key.hash(seed)) = slot;
    }
    Slot* const slot = empty(hash);
    slot->key = key;
    return slot->value;
  }

  void clear() {
    slots_.assign(kFirst, {});
    slots_.shrink_to_fit();
    mask_ = kFirst - 1;
    size_ = 0;
  }

  // Calls function(bytes, size, value) for each key.
  template <class Function>
  void each(Function&& function) const {
    for (const Slot& slot : slots_)
      if (slot.key.size()) function(reinterpret_cast<const uint8_t*>(slot.key.word), slot.key.size(), slot.value);
  }

 private:
  struct alignas(sizeof(Key) + sizeof(Value) > 32 ? 64 : 32) Slot {
    Key key{};
    Value value{};
  };
  using Slots = std::vector<Slot, LargePages<Slot>>;
  static constexpr size_t kFirst = 1 << 10;
  Slot* empty(uint64_t hash) {
    size_t i = hash & mask_;
    while (slots_[i].key.size()) i = (i + 1) & mask_;
    return &slots_[i];
  }
  Slots slots_;
  size_t mask_ = kFirst - 1, size_ = 0;
};

// Open addressing over records in one array: {key length, payload length, payload, key}, each padded to 8 bytes. A look-up
// reads two cache lines. Both can be prefetched.
class WordTable {
 public:
  WordTable() : slots_(1024) {}

  struct Record {
    uint32_t key_size, payload_size;
    uint8_t* payload() { return reinterpret_cast<uint8_t*>(this + 1); }
    const uint8_t* key() const { return reinterpret_cast<const uint8_t*>(this + 1) + padded(payload_size); }
    size_t size() const { return sizeof(Record) + padded(payload_size) + padded(key_size); }
  };

  size_t size() const { return size_; }
  size_t bytes() const { return slots_.size() * sizeof(Slot) + arena_.capacity() * 8; }

  // The peak memory in bytes while `more` keys, of `key_bytes` in total, are added with payloads of 8 bytes.
  size_t peak(size_t more, size_t key_bytes) const {
    const size_t arena = arena_.size() * 8 + key_bytes + more * (sizeof(Record) + 16), room = arena_.capacity() * 8;
    return peak_slots(slots_.size(), size_ + more) * sizeof(Slot) + (arena <= room ? room : room + 2 * arena);
  }

  void prefetch_slot(uint64_t hash) const { prefetch_line(&slots_[hash & mask()]); }

  // Prefetches the record of the first slot of `hash`, which is usually the right one.
  void prefetch_record(uint64_t hash) const {
    const Slot& slot = slots_[hash & mask()];
    if (slot.place) prefetch_line(&arena_[slot.place - 1]);
  }

  // Returns the record of a key, or null.
  Record* find(uint64_t hash, const uint8_t* key, size_t n) {
    for (size_t i = hash & mask();; i = (i + 1) & mask()) {
      const Slot& slot = slots_[i];
      if (!slot.place) return nullptr;
      if (slot.hash != static_cast<uint32_t>(hash >> 32)) continue;
      Record* record = at(slot.place);
      if (record->key_size == n && std::memcmp(record->key(), key, n) == 0) return record;
    }
  }

  // Adds a new key. Other records move.
  Record* insert(uint64_t hash, const uint8_t* key, size_t n, size_t payload_size) {
    if ((size_ + 1) * 2 > slots_.size()) grow();
    const size_t place = arena_.size();
    arena_.resize(place + (sizeof(Record) + padded(payload_size) + padded(n)) / 8);
    auto* record = reinterpret_cast<Record*>(&arena_[place]);
    record->key_size = static_cast<uint32_t>(n);
    record->payload_size = static_cast<uint32_t>(payload_size);
    if (n) std::memcpy(const_cast<uint8_t*>(record->key()), key, n);
    put(hash, place + 1);
    ++size_;
    return record;
  }

  void clear() {
    slots_.assign(1024, {});
    slots_.shrink_to_fit();
    arena_.clear();
    arena_.shrink_to_fit();
    size_ = 0;
  }

  template <class Function>
  void each(Function&& function) {
    for (size_t place = 0; place < arena_.size(); place += at(place + 1)->size() / 8) function(*at(place + 1));
  }

 private:
  struct Slot {
    uint64_t place = 0;  // index in arena_ plus one; 0: empty
    uint32_t hash = 0;
    uint32_t low = 0;
  };
  using Slots = std::vector<Slot, LargePages<Slot>>;

  static constexpr size_t padded(size_t n) { return (n + 7) & ~size_t{7}; }
  size_t mask() const { return slots_.size() - 1; }
  Record* at(uint64_t place) { return reinterpret_cast<Record*>(&arena_[place - 1]); }

  void put(uint64_t hash, uint64_t place) {
    size_t i = hash & mask();
    while (slots_[i].place) i = (i + 1) & mask();
    slots_[i] = {place, static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(hash)};
  }

  void grow() {
    Slots old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.place) put(uint64_t{slot.hash} << 32 | slot.low, slot.place);
  }

  Slots slots_;
  std::vector<uint64_t, LargePages<uint64_t>> arena_;
  size_t size_ = 0;
};

}  // namespace hf_sgpe
