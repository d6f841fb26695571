// Compares the forms of the kernels that work on many bytes at a time with those that go one by one: forms TEXTS SEED
//
// A program of its own, since it also runs in an emulated processor of another kind, where there is no Python.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "scanner.h"
#include "special_tokens.h"
#include "utf8.h"

using namespace hf_sgpe;

namespace {

const std::vector<Ranges> kScripts = {{{0x0D80, 0x0DDF}}, {{0x0900, 0x0963}, {0x0971, 0x097F}}, {{0x0B82, 0x0BE5}}};
// Accents go on with the words of the second script only, and U+2028 with those of the third.
const std::vector<Ranges> kJoiners = {
    {{0x200C, 0x200D}}, {{0x200C, 0x200D}, {0x0300, 0x036F}}, {{0x200C, 0x200D}, {0x2028, 0x2028}}};

// Runs of characters that the patterns distinguish, from a choice that is small in most texts.
class Texts {
 public:
  explicit Texts(uint64_t seed) : random_(seed) {}

  std::vector<uint32_t> next(size_t number) {
    std::vector<uint32_t> few(1 + below(below(2) ? 4 : kCharacters));
    for (uint32_t& point : few) point = character();
    std::vector<uint32_t> text;
    const size_t size = 1 + below(number % 1000 == 999 ? 12000 : number % 10 ? 100 : 400);
    while (text.size() < size) text.insert(text.end(), below(8) ? 1 : below(70), few[below(few.size())]);
    return text;
  }

 private:
  static constexpr char kAscii[] = "   \n\r\t\v/'''()|.,!?-abcXYZsStTrevldmk019";
  static constexpr uint32_t kOthers[] = {
      0x2019, 0x2019, 0x0085, 0x00A0, 0x3000, 0x2028, 0x017F, 0x2026, 0x3002,  0xFF0C,  0x3001,  0x0964, 0x06D4, 0x060C, 0x200D,
      0x200C, 0x0DCA, 0x0D9A, 0x0DB1, 0x0DD2, 0x0915, 0x093F, 0x094D, 0x0B95,  0x0301,  0x00E9,  0x00C9, 0x4E2D, 0x0661, 0x02B0,
      0x01C5, 0x0DD9, 0x0DCF, 0x093C, 0x0958, 0x07FF, 0x0800, 0xFFFF, 0x10000, 0x1F600, 0x1D7D8, 0x10FFFF};
  static constexpr size_t kCharacters = sizeof kAscii - 1 + std::size(kOthers);

  size_t below(size_t n) { return random_() % n; }
  uint32_t character() {
    const size_t which = below(kCharacters);
    return which < sizeof kAscii - 1 ? static_cast<uint8_t>(kAscii[which]) : kOthers[which - (sizeof kAscii - 1)];
  }

  std::mt19937_64 random_;
};

std::string to_bytes(const std::vector<uint32_t>& text) {
  std::string bytes;
  uint8_t one[4];
  for (uint32_t point : text) bytes.append(reinterpret_cast<char*>(one), static_cast<size_t>(encode(point, one) - one));
  return bytes;
}

std::vector<size_t> cut(const Scanner& scanner, const std::string& text) {
  std::vector<size_t> starts;
  const auto* const first = reinterpret_cast<const uint8_t*>(text.data());
  scanner.words(first, text.size(), [&](const uint8_t* word, size_t size) {
    starts.push_back(static_cast<size_t>(word - first));
    starts.push_back(size);
  });
  return starts;
}

[[noreturn]] void differs(const char* what, const std::string& text) {
  std::printf("%s differs:", what);
  for (const char byte : text.substr(0, 2000)) std::printf(" %02x", static_cast<uint8_t>(byte));
  std::printf("\n");
  std::exit(1);
}

// Words found by bits against words found one by one, as they are behind steps: here one that cuts nothing.
size_t compare_words(size_t texts, uint64_t seed) {
  size_t words = 0;
  Texts random(seed);
  for (const char* base :
       {"gpt2", "cl100k", "qwen2", "qwen35", "o200k", "tekken", "bloom", "cl100k-any-space", "cl100k-typographic"}) {
    for (const bool with_scripts : {false, true}) {
      const auto scripts = with_scripts ? kScripts : std::vector<Ranges>{};
      const auto joiners = with_scripts ? kJoiners : std::vector<Ranges>{};
      const Scanner by_bits(base, scripts, joiners), one_by_one(base, scripts, joiners, {{{{0x10FFFE, 0x10FFFE}}, 0}});
      for (size_t i = 0; i < texts; ++i) {
        const std::string text = to_bytes(random.next(i));
        const auto expected = cut(one_by_one, text);
        if (cut(by_bits, text) != expected) differs(base, text);
        words += expected.size() / 2;
      }
    }
  }
  return words;
}

bool same(const Block& a, const Block& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

void compare_blocks(size_t texts, uint64_t seed) {
  Texts random(seed);
  for (size_t i = 0; i < texts; ++i) {
    std::string text = to_bytes(random.next(i));
    const size_t n = text.size() / kBlock;
    text.append(kBlock, 0);
    std::vector<Block> fast(n + 1), slow(n + 1);
    const auto* const bytes = reinterpret_cast<const uint8_t*>(text.data());
    classify(bytes, n, fast.data());
    classify_portably(bytes, n, slow.data());
    for (size_t block = 0; block < n; ++block)
      if (!same(fast[block], slow[block])) differs("a block", text);
  }
}

template <class Character>
void compare_utf8(const std::vector<uint32_t>& points, bool check_nfc) {
  const std::vector<Character> text(points.begin(), points.end());
  const size_t most = text.size() * 4;
  std::string fast(most + kUtf8Slack, 0), slow(most + kUtf8Slack, 0);
  const auto convert = [&](auto how, std::string& to) {
    const Converted done = how(text.data(), text.size(), reinterpret_cast<uint8_t*>(to.data()), check_nfc);
    to.resize(static_cast<size_t>(done.end - reinterpret_cast<uint8_t*>(to.data())));
    return done.plain;
  };
  const bool plain = convert(to_utf8<Character>, fast);
  // The UTF-8 of a checked text ends somewhere if the text is not plain.
  const bool ends = check_nfc && !plain;
  if (plain != convert(to_utf8_portably<Character>, slow) || (!ends && fast != slow)) differs("UTF-8", slow);
}

void compare_utf8(size_t texts, uint64_t seed) {
  Texts random(seed);
  for (size_t i = 0; i < texts; ++i) {
    std::vector<uint32_t> text = random.next(i);
    if (i % 50 == 0) text.push_back(0xD800 + static_cast<uint32_t>(i % 2048));  // a surrogate alone
    compare_utf8<uint32_t>(text, i % 2);
    for (uint32_t& point : text) point &= 0xFFFF;
    compare_utf8<uint16_t>(text, i % 2);
    for (uint32_t& point : text) point &= 0xFF;
    compare_utf8<uint8_t>(text, i % 2);
  }
}

// Tokens found many bytes at a time against those found by a trial of each token at each place.
void compare_tokens(size_t texts, uint64_t seed) {
  Texts random(seed);
  for (size_t i = 0; i < texts; ++i) {
    const std::string text = to_bytes(random.next(i)), other = to_bytes(random.next(i));
    std::vector<std::pair<std::string, int32_t>> tokens;
    for (size_t place = 0; tokens.size() < i % 30; place += 7)
      tokens.emplace_back((tokens.size() % 3 ? text : other).substr(place % (std::min(text.size(), other.size())), 1 + i % 5), 1);
    const auto* const start = reinterpret_cast<const uint8_t*>(text.data());
    const SpecialTokens::Match match = SpecialTokens(tokens).find(start, start + text.size());
    size_t place = 0, longest = 0;
    for (; place < text.size() && !longest; ++place)
      for (const auto& [token, id] : tokens)
        if (text.compare(place, token.size(), token) == 0) longest = std::max(longest, token.size());
    if (match.size != longest || (longest && match.start != start + place - 1)) differs("a token", text);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: forms TEXTS SEED\n"), 2;
  const size_t texts = std::strtoull(argv[1], nullptr, 10);
  const uint64_t seed = std::strtoull(argv[2], nullptr, 10);
  compare_blocks(texts, seed);
  compare_utf8(texts, seed);
  compare_tokens(texts, seed);
  const size_t words = compare_words(texts, seed);
  std::printf("%s: %zu words, no difference\n", kVectors ? "vectors" : "portable", words);
}
