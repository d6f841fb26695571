// SpecialTokens: a test whether a text contains a special token.

#pragma once

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "text.h"

namespace hf_sgpe {

class SpecialTokens {
 public:
  void add(std::string token) {
    if (token.empty()) throw std::invalid_argument("a special token must not be empty");
    const auto first = static_cast<uint8_t>(token[0]);
    if (!first_[first]) ++firsts_, only_first_ = first;
    first_[first] = true;
    tokens_.insert(std::upper_bound(tokens_.begin(), tokens_.end(), token), std::move(token));
  }

  bool in(const Utf8& text) const {
    const uint8_t* const end = text.data + text.size;
    for (const uint8_t* p = text.data; firsts_ && p < end; ++p) {
      if (firsts_ == 1) {
        p = static_cast<const uint8_t*>(std::memchr(p, only_first_, static_cast<size_t>(end - p)));
        if (!p) return false;
      } else if (!first_[*p]) {
        continue;
      }
      if (at(p, end)) return true;
    }
    return false;
  }

 private:
  // Narrows the sorted tokens byte by byte to the tokens at the start of the text at `p`.
  bool at(const uint8_t* p, const uint8_t* end) const {
    auto low = tokens_.begin(), high = tokens_.end();
    for (size_t i = 0; low != high && p + i < end; ++i) {
      const auto byte = [i](const std::string& token) { return static_cast<uint8_t>(token[i]); };
      low = std::partition_point(low, high, [&](const std::string& token) { return byte(token) < p[i]; });
      high = std::partition_point(low, high, [&](const std::string& token) { return byte(token) == p[i]; });
      if (low != high && low->size() == i + 1) return true;
    }
    return false;
  }

  std::vector<std::string> tokens_;
  bool first_[256] = {};  // the first bytes of all tokens
  int firsts_ = 0, only_first_ = 0;
};

}  // namespace hf_sgpe
