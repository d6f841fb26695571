// TextEncoder: whole texts → token ids, one text at a time or many on several threads.

#pragma once

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include "encoder.h"
#include "neighbours.h"
#include "special_tokens.h"
#include "threads.h"

namespace hf_sgpe {

// Consecutive texts, which one thread encodes in order.
struct Part {
  size_t first, last;  // texts first to last - 1
  size_t thread = 0, start = 0, size = 0;  // the place of its ids among those of the thread
  std::vector<std::pair<size_t, bool>> texts = {};  // number of ids, and false for a text that is left out
};

struct Batch {
  std::vector<Part> parts;
  std::vector<Ids> ids;  // of each thread
  size_t size;     // number of texts
  size_t threads;  // number of threads with work

  Batch(const std::vector<Text>& texts, size_t most_threads) : size(texts.size()) {
    for (size_t i = 0, characters = 0; i < size; ++i) {
      // With one thread, everything is one part.
      if (i == 0 || (most_threads > 1 && characters >= kPart)) parts.push_back({i, i}), characters = 0;
      parts.back().last = i + 1;
      characters += texts[i].length();
    }
    threads = std::clamp<size_t>(most_threads, 1, std::max<size_t>(parts.size(), 1));
    ids.resize(threads);
  }

  // All ids joined, the end of the ids of each text, and the indices of texts that are left out.
  struct Joined {
    Ids ids;
    std::vector<int64_t> ends;
    std::vector<size_t> left_out;
  };

  // Moves the ids if there is one part.
  Joined join(size_t most_threads) {
    Joined joined;
    std::vector<size_t> starts;
    size_t total = 0;
    joined.ends.reserve(size);
    for (const Part& part : parts) {
      starts.push_back(total);
      total += part.size;
    }
    int64_t end = 0;
    for (const Part& part : parts) {
      for (const auto& [length, encoded] : part.texts) {
        if (!encoded) joined.left_out.push_back(joined.ends.size());
        joined.ends.push_back(end += static_cast<int64_t>(length));
      }
    }
    if (parts.size() == 1) {
      std::swap(joined.ids, ids[0]);
      return joined;
    }
    // The first use of new memory costs as much as copying into it, so the threads also share that cost.
    Id* const out = joined.ids.room(total);
    joined.ids.grown(total);
    in_parallel(parts.size(), most_threads, [&](size_t, size_t i) {
      const Part& part = parts[i];
      if (part.size) std::memcpy(out + starts[i], ids[part.thread].data() + part.start, part.size * sizeof(Id));
    });
    return joined;
  }

 private:
  static constexpr size_t kPart = size_t{1} << 18;  // characters
};

// Before which parts of a text between added tokens a space is put: Space in hf_sgpe/splitting/normalization.py.
enum class Space { kNever = 0, kBeforeEach = 1, kUnlessSpace = 2, kBeforeFirstUnlessSpace = 3 };

class TextEncoder {
 public:
  // What cuts texts into words. It must outlive the encoder. If it is null, only words can be encoded.
  using Cutter = std::variant<const Scanner*, const Neighbours*>;

  TextEncoder(Encoder words, Cutter cutter, SpecialTokens special_tokens, SpecialTokens added_tokens, Space prefix)
      : words_(std::move(words)),
        cutter_(cutter),
        special_tokens_(std::move(special_tokens)),
        added_tokens_(std::move(added_tokens)),
        prefix_(prefix) {}

  const Encoder& words() const { return words_; }

  // Appends the ids of a text. Appends nothing and returns false if the text has surrogates, if NFC might change it (checked
  // if `nfc`), or if it contains a special token or, with `nfc`, an added one (both found only if `find_special`).
  bool text(const Text& text, bool nfc, bool find_special, Memory& memory, Ids& ids) const {
    return std::visit([&](const auto* cutter) {
      if (!cutter) throw std::logic_error("this encoder has no scanner");
      return encode(text, *cutter, nfc, find_special, memory, ids);
    }, cutter_);
  }

  // Fills a batch of these texts. `memory_of` returns the Memory of each thread of the batch.
  template <class MemoryOf>
  void batch(const std::vector<Text>& texts, bool nfc, bool find_special, Batch& batch, MemoryOf&& memory_of) const {
    in_parallel(batch.parts.size(), batch.threads, [&](size_t thread, size_t i) {
      Part& part = batch.parts[i];
      size_t characters = 0;
      for (size_t place = part.first; place < part.last; ++place) characters += texts[place].length();
      Ids& ids = batch.ids[thread];
      ids.room(characters / 3);  // an estimate of their number
      part.thread = thread;
      part.start = ids.size();
      for (size_t place = part.first; place < part.last; ++place) {
        if (place + 1 < part.last) texts[place + 1].prefetch();
        const size_t before = ids.size();
        const bool encoded = text(texts[place], nfc, find_special, memory_of(thread), ids);
        part.texts.emplace_back(ids.size() - before, encoded);
      }
      part.size = ids.size() - part.start;
    });
  }

 private:
  template <class Cut>
  bool encode(const Text& text, const Cut& cutter, bool nfc, bool find_special, Memory& memory, Ids& ids) const {
    const Utf8 utf8 = text.utf8(memory.scratch, nfc);
    if (!utf8.plain || (find_special && special_tokens_.in(utf8))) return false;
    const uint8_t *p = utf8.data, *const end = p + utf8.size, *limit = end;
    const bool marks = words_.by_characters() && text.has(kMark);
    uint8_t* changed = nullptr;  // where the next part is written
    if (prefix_ != Space::kNever || marks) {
      // Parts and tokens alternate, so that only one part is not paid for by a token.
      changed = memory.changed.reserve(utf8.size + 1);
      limit = changed + utf8.size + 1;
    }
    Encoder::Pipeline pipeline(words_, memory, ids, limit);
    for (SpecialTokens::Match token{}; ; p = token.start + token.size) {
      if (find_special) token = added_tokens_.find(p, end);
      if (token.start && nfc) return false;  // Python knows how NFC and added tokens go together
      const uint8_t* part = p;
      auto size = static_cast<size_t>((token.start ? token.start : end) - p);
      if (changed && size) {
        uint8_t* const start = changed;
        changed = change(part, size, part == utf8.data, marks, changed);
        part = start;
        size = static_cast<size_t>(changed - start);
      }
      cutter.words(part, size, pipeline);
      if (!token.start) break;
      pipeline.token(token.id);
    }
    pipeline.finish();
    return true;
  }

  // Writes a part as it is encoded to `out`: U+2581 becomes a space. Returns the end.
  uint8_t* change(const uint8_t* part, size_t size, bool first, bool marks, uint8_t* out) const {
    const uint8_t* after = part;
    const uint32_t point = decode(after);
    const bool spaced = point == ' ' || point == kMark;
    if (prefix_ == Space::kBeforeEach || (prefix_ == Space::kUnlessSpace && !spaced) ||
        (prefix_ == Space::kBeforeFirstUnlessSpace && first && !spaced))
      *out++ = ' ';
    if (!marks) return std::copy_n(part, size, out);
    for (const uint8_t *p = part, *const end = part + size; p < end;) {
      const uint8_t* const start = p;
      if (decode(p) == kMark) *out++ = ' ';
      else out = std::copy(start, p, out);
    }
    return out;
  }

  static constexpr uint16_t kMark = 0x2581;

  Encoder words_;
  Cutter cutter_;
  SpecialTokens special_tokens_, added_tokens_;
  Space prefix_;
};

}  // namespace hf_sgpe
