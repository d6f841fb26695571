// Decoder: token ids → bytes.

#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "merges.h"
#include "text.h"

namespace hf_sgpe {

class Decoder {
 public:
  // `limit`: all ids are below this number.
  explicit Decoder(size_t limit) : ends_(limit + 1), known_(limit), special_(limit) {}

  // Tokens must be added in the order of their ids, which may have gaps.
  void add(Id id, const uint8_t* bytes, size_t size) {
    const auto place = static_cast<size_t>(id);
    if (id < 0 || place >= known_.size() || place < filled_)
      throw std::invalid_argument("token id " + std::to_string(id) + " is too great, or not in ascending order");
    for (; filled_ <= place; ++filled_) ends_[filled_] = bytes_.size();
    bytes_.append(reinterpret_cast<const char*>(bytes), size);
    ends_[place + 1] = bytes_.size();
    known_[place] = true;
  }

  // For each id, the characters of `text` with bytes of its token: the first, and the one after the last.
  void offsets(const Id* ids, size_t n, const Text& text, std::vector<int32_t>& offsets) const {
    text.visit([&](const auto* characters) {
      const auto wrong = [] { return std::invalid_argument("the ids are not those of the text"); };
      size_t place = 0, left = 0;  // the next character, and the number of bytes left of the character before it
      for (size_t i = 0; i < n; ++i) {
        const auto id = static_cast<size_t>(ids[i]);
        if (id >= known_.size() || !known_[id]) throw wrong();
        size_t bytes = ends_[id + 1] - ends_[id];
        offsets.push_back(static_cast<int32_t>(left ? place - 1 : place));
        while (bytes > left) {
          bytes -= left;
          if (place == text.length()) throw wrong();
          const uint32_t point = characters[place++];
          left = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
        }
        left -= bytes;
        offsets.push_back(static_cast<int32_t>(place));
      }
      if (left != 0 || place != text.length()) throw wrong();
    });
  }

  void set_special(size_t id) { special_.at(id) = true; }

  // Appends the bytes of an id to `out`, unless it is special and to be skipped. Returns false if no token has this id.
  bool append(int64_t id, bool skip_special_tokens, std::string& out) const {
    const auto place = static_cast<size_t>(id);
    if (id < 0 || place >= known_.size() || !known_[place]) return false;
    if (!skip_special_tokens || !special_[place]) out.append(bytes_, ends_[place], ends_[place + 1] - ends_[place]);
    return true;
  }

 private:
  std::string bytes_;         // of all tokens
  std::vector<size_t> ends_;  // end of the token before each id
  std::vector<bool> known_, special_;
  size_t filled_ = 0;
};

}  // namespace hf_sgpe
