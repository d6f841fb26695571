// TextEncoder: whole texts → token ids, one text at a time or many on several threads.

#pragma once

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

#include "encoder.h"
#include "special_tokens.h"
#include "threads.h"

namespace hf_sgpe {

// Neighbouring texts, which one thread encodes one after another.
struct Part {
  size_t first, last;  // texts first to last - 1
  size_t thread = 0, start = 0, size = 0;  // where its ids are among those of the thread
  std::vector<std::pair<size_t, bool>> texts = {};  // number of ids, and false for a text that was left out
};

struct Batch {
  std::vector<Part> parts;
  std::vector<Ids> ids;  // of each thread
  size_t size;     // number of texts
  size_t threads;  // as many as have work to do

  Batch(const std::vector<Text>& texts, size_t most_threads) : size(texts.size()) {
    for (size_t i = 0, characters = 0; i < size; ++i) {
      // One thread needs no parts.
      if (i == 0 || (most_threads > 1 && characters >= kPart)) parts.push_back({i, i}), characters = 0;
      parts.back().last = i + 1;
      characters += texts[i].length();
    }
    threads = std::clamp<size_t>(most_threads, 1, std::max<size_t>(parts.size(), 1));
    ids.resize(threads);
  }

  // All ids one after another, where those of each text end, and which texts were left out.
  struct Joined {
    Ids ids;
    std::vector<int64_t> ends;
    std::vector<size_t> left_out;
  };

  // Takes the ids if there is one part.
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
    // Touching new memory costs as much as copying into it, so the threads share that too.
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

class TextEncoder {
 public:
  // `scanner` may be null, and then only words can be encoded. It must outlive the encoder.
  TextEncoder(Encoder words, const Scanner* scanner) : words_(std::move(words)), scanner_(scanner) {}

  void add_special_token(std::string token) { special_tokens_.add(std::move(token)); }
  const Encoder& words() const { return words_; }

  // Appends the ids of a text. If it has surrogates, NFC might change it (checked if `nfc`) or it contains a special token
  // (checked if `find_special`), the text is left out: nothing is appended, and the result is false.
  bool text(const Text& text, bool nfc, bool find_special, Memory& memory, Ids& ids) const {
    if (!scanner_) throw std::logic_error("this encoder has no scanner");
    const Utf8 utf8 = text.utf8(memory.scratch, nfc);
    if (!utf8.plain || (find_special && special_tokens_.in(utf8))) return false;
    words_.text(utf8.data, utf8.size, *scanner_, memory, ids);
    return true;
  }

  // Fills a batch that was made of these texts. `memory_of` gives the Memory of each of the batch's threads.
  template <class MemoryOf>
  void batch(const std::vector<Text>& texts, bool nfc, bool find_special, Batch& batch, MemoryOf&& memory_of) const {
    in_parallel(batch.parts.size(), batch.threads, [&](size_t thread, size_t i) {
      Part& part = batch.parts[i];
      size_t characters = 0;
      for (size_t place = part.first; place < part.last; ++place) characters += texts[place].length();
      Ids& ids = batch.ids[thread];
      ids.room(characters / 3);  // about as many as there will be
      part.thread = thread;
      part.start = ids.size();
      for (size_t place = part.first; place < part.last; ++place) {
        const size_t before = ids.size();
        const bool encoded = text(texts[place], nfc, find_special, memory_of(thread), ids);
        part.texts.emplace_back(ids.size() - before, encoded);
      }
      part.size = ids.size() - part.start;
    });
  }

 private:
  Encoder words_;
  const Scanner* scanner_;
  SpecialTokens special_tokens_;
};

}  // namespace hf_sgpe
