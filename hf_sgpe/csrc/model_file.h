// ModelFile: the vocabulary and the merges of a tokenizer.json.
//
// Only ordinary files are read. Whatever is unusual or wrong makes the file unreadable here. The readable reader reads such a
// file, or finds the error.

#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "vocabulary.h"

namespace hf_sgpe {

// Reads JSON from the start to the end. Each function returns false if the text does not continue as expected.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : p_(text.data()), end_(p_ + text.size()) {}

  const char* place() const { return p_; }

  bool take(char wanted) {
    skip_space();
    if (p_ == end_ || *p_ != wanted) return false;
    ++p_;
    return true;
  }

  // Reads a string without escapes.
  bool plain_string(std::string_view& text) {
    if (!take('"')) return false;
    const char* const start = p_;
    while (p_ != end_ && *p_ != '"' && *p_ != '\\') ++p_;
    text = {start, static_cast<size_t>(p_ - start)};
    return take('"');
  }

  bool string(std::string& text) {
    if (!take('"')) return false;
    text.clear();
    for (;;) {
      const char* const start = p_;
      while (p_ != end_ && *p_ != '"' && *p_ != '\\' && static_cast<uint8_t>(*p_) >= 0x20) ++p_;
      text.append(start, p_);
      if (p_ == end_ || static_cast<uint8_t>(*p_) < 0x20) return false;
      if (*p_++ == '"') return true;
      if (!escape(text)) return false;
    }
  }

  // Reads a whole number from 0 to 2**31 - 1.
  bool number(Id& number) {
    skip_space();
    const char* const start = p_;
    int64_t value = 0;
    while (p_ != end_ && *p_ >= '0' && *p_ <= '9' && p_ - start < 11) value = value * 10 + (*p_++ - '0');
    number = static_cast<Id>(value);
    const bool has_zero = p_ - start > 1 && *start == '0';
    return p_ != start && !has_zero && value <= INT32_MAX && (p_ == end_ || !std::strchr("0123456789.eE", *p_) || !*p_);
  }

  // Skips a value, which is not checked.
  bool skip_value() {
    size_t depth = 0;
    for (;;) {
      skip_space();
      if (p_ == end_) return false;
      const char c = *p_++;
      if (c == '"') {
        for (; p_ != end_ && *p_ != '"'; ++p_)
          if (*p_ == '\\' && ++p_ == end_) return false;
        if (p_++ == end_) return false;
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if (c == '}' || c == ']') {
        if (!depth--) return false;
      } else if (c == ',' || c == ':') {
        if (!depth) return false;
        continue;
      } else {
        while (p_ != end_ && *p_ && !std::strchr(",:{}[]\" \t\r\n", *p_)) ++p_;
      }
      if (!depth) return true;
    }
  }

  // Calls member(key) for each member of an object, which reads the value.
  template <class Member>
  bool object(Member&& member) {
    return list('{', '}', [&] {
      std::string_view key;
      return plain_string(key) && take(':') && member(key);
    });
  }

  // Calls item() for each item between two brackets, which reads the item.
  template <class Item>
  bool list(char open, char close, Item&& item) {
    if (!take(open)) return false;
    if (take(close)) return true;
    do {
      if (!item()) return false;
    } while (take(','));
    return take(close);
  }

 private:
  void skip_space() {
    while (p_ != end_ && (*p_ == ' ' || *p_ == '\n' || *p_ == '\r' || *p_ == '\t')) ++p_;
  }

  bool escape(std::string& text) {
    if (p_ == end_) return false;
    static constexpr std::string_view kLetters = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    const char letter = *p_++;
    if (const size_t i = kLetters.find(letter); i != kLetters.npos) return text.push_back(kMeanings[i]), true;
    uint32_t point = 0, low = 0;
    if (letter != 'u' || !four_digits(point)) return false;
    if (is_surrogate(point)) {
      if (point >= 0xDC00 || end_ - p_ < 2 || *p_++ != '\\' || *p_++ != 'u' || !four_digits(low)) return false;
      if (low < 0xDC00 || low >= 0xE000) return false;
      point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
    }
    uint8_t utf8[4];
    text.append(reinterpret_cast<const char*>(utf8), static_cast<size_t>(encode(point, utf8) - utf8));
    return true;
  }

  bool four_digits(uint32_t& point) {
    if (end_ - p_ < 4) return false;
    for (const char* const stop = p_ + 4; p_ != stop; ++p_) {
      static constexpr std::string_view kDigits = "0123456789abcdefABCDEF";
      const size_t digit = kDigits.find(*p_);
      if (digit == kDigits.npos) return false;
      point = point * 16 + static_cast<uint32_t>(digit < 16 ? digit : digit - 6);
    }
    return true;
  }

  const char *p_, *end_;
};

// Returns the bytes that a vocabulary string means in GPT-2's alphabet, or false if a character represents no byte.
inline bool spelled_bytes(std::string_view text, std::string& bytes) {
  static const std::vector<int> byte_of = [] {
    std::vector<int> table(0x200, -1);
    int next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
      table[static_cast<size_t>(printable ? byte : next++)] = byte;
    }
    return table;
  }();
  bytes.clear();
  const auto *p = reinterpret_cast<const uint8_t*>(text.data()), *const end = p + text.size();
  while (p != end) {
    const uint32_t point = decode(p);
    if (point >= byte_of.size() || byte_of[point] < 0) return false;
    bytes.push_back(static_cast<char>(byte_of[point]));
  }
  return true;
}

class ModelFile {
 public:
  struct Span {
    size_t start = 0, end = 0;
  };

  // Finds the vocabulary and the merges in a tokenizer.json.
  static bool locate(std::string_view file, Span& vocab, Span& merges) {
    JsonReader json(file);
    const auto value = [&](Span& span) {
      if (span.end) return false;  // the key occurs twice
      span.start = static_cast<size_t>(json.place() - file.data());
      if (!json.skip_value()) return false;
      span.end = static_cast<size_t>(json.place() - file.data());
      return true;
    };
    bool has_model = false;
    const auto part = [&](std::string_view key) {
      return key == "vocab" ? value(vocab) : key == "merges" ? value(merges) : json.skip_value();
    };
    return json.object([&](std::string_view key) {
      if (key != "model") return json.skip_value();
      return !std::exchange(has_model, true) && json.object(part);
    }) && vocab.end && merges.end;
  }

  explicit ModelFile(bool by_characters) : by_characters_(by_characters) {}

  bool read(std::string_view vocab, std::string_view merges) { return read_vocab(vocab) && read_merges(merges); }

  // Returns the id of a vocabulary string, or -1.
  Id find(const std::string& text) {
    if (const auto other = others_.find(text); other != others_.end()) return other->second;
    const int32_t place = place_of(text);
    return place == Vocabulary::kNowhere ? -1 : tokens_.id(place);
  }

  size_t size() const { return tokens_.size() + others_.size(); }

  // The strings that represent no bytes, with their ids.
  const std::unordered_map<std::string, Id>& others() const { return others_; }

  // Returns those of the strings that merges use or make.
  std::vector<std::string> merged_among(const std::vector<std::string>& strings) {
    std::vector<bool> merged(tokens_.size());
    for (const auto& [left, right, result] : tokens_.merges())
      for (const int32_t place : {left, right, result}) merged[static_cast<size_t>(place)] = true;
    std::vector<std::string> texts;
    for (const std::string& text : strings)
      if (const int32_t place = place_of(text); place != Vocabulary::kNowhere && merged[static_cast<size_t>(place)])
        texts.push_back(text);
    return texts;
  }

  // Makes the vocabulary without some strings. Returns false if merges use one of them.
  bool finish(const std::vector<std::string>& left_out, Vocabulary& vocabulary) {
    std::vector<int32_t> place_in(tokens_.size());
    for (const std::string& text : left_out)
      if (const int32_t place = place_of(text); place != Vocabulary::kNowhere)
        place_in[static_cast<size_t>(place)] = Vocabulary::kNowhere;
    for (size_t place = 0; place < tokens_.size(); ++place) {
      if (place_in[place] == Vocabulary::kNowhere) continue;
      place_in[place] = static_cast<int32_t>(vocabulary.size());
      vocabulary.add(tokens_[static_cast<int32_t>(place)], tokens_.id(static_cast<int32_t>(place)));
    }
    for (const auto& [left, right, result] : tokens_.merges()) {
      const auto new_place = [&](int32_t place) { return place_in[static_cast<size_t>(place)]; };
      if (!vocabulary.add_merge({new_place(left), new_place(right), new_place(result)})) return false;
    }
    return true;
  }

 private:
  // Puts the bytes that a vocabulary string means into bytes_.
  bool spell(std::string_view text) {
    if (!by_characters_) return spelled_bytes(text, bytes_);
    static constexpr std::string_view kMark = "\xE2\x96\x81";
    bytes_.clear();
    for (size_t start = 0;;) {
      const size_t mark = text.find(kMark, start);
      bytes_.append(text.substr(start, mark - start));
      if (mark == text.npos) return text.find(' ') == text.npos;  // " " and "▁" would be the same token
      bytes_.push_back(' ');
      start = mark + kMark.size();
    }
  }

  int32_t place_of(std::string_view text) { return spell(text) ? tokens_.find(bytes_) : Vocabulary::kNowhere; }

  bool read_vocab(std::string_view vocab) {
    JsonReader json(vocab);
    std::string text;
    return json.list('{', '}', [&] {
      Id id;
      if (!json.string(text) || text.empty() || !is_utf8(text) || !json.take(':') || !json.number(id)) return false;
      if (spell(text)) return tokens_.add(bytes_, id);
      return !by_characters_ && others_.emplace(text, id).second;
    });
  }

  bool read_merges(std::string_view merges) {
    JsonReader json(merges);
    std::string left, right;
    return json.list('[', ']', [&] {
      if (json.take('[')) {
        if (!json.string(left) || !json.take(',') || !json.string(right) || !json.take(']')) return false;
      } else {
        if (!json.string(left)) return false;
        const size_t space = left.find(' ');
        if (space == left.npos) return false;
        right.assign(left, space + 1);
        left.resize(space);
      }
      if (!is_utf8(left) || !is_utf8(right)) return false;
      const int32_t first = place_of(left);
      return tokens_.add_merge(first, place_of(right));
    });
  }

  bool by_characters_;
  Vocabulary tokens_;  // added tokens too, if their texts represent bytes
  std::unordered_map<std::string, Id> others_;
  std::string bytes_;
};

}  // namespace hf_sgpe
