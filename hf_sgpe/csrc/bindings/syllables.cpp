// Syllables: texts → written syllables.

#include "syllables.h"

#include "python.h"

namespace hf_sgpe {
namespace {

// The tables of a script: characters by class, classes of the shared characters, grammar (state → class → next state), and
// whether a syllable may end in each state.
using Tables = std::tuple<std::vector<std::pair<int, Ranges>>, std::array<int, Syllables::kShared>,
                          std::vector<std::vector<int>>, std::vector<bool>>;

Syllables from_tables(const std::vector<Tables>& tables, const Ranges& marks) {
  std::vector<Syllables::Script> scripts;
  for (const auto& [classes, shared, grammar, ends] : tables) scripts.push_back({classes, shared, grammar, ends});
  return Syllables(std::move(scripts), marks);
}

class PySyllables {
 public:
  PySyllables(const std::vector<Tables>& scripts, const Ranges& marks) : syllables_(from_tables(scripts, marks)) {}
  PySyllables(const PySyllables&) = delete;
  PySyllables& operator=(const PySyllables&) = delete;

  nb::typed<nb::list, nb::str> tokenize(nb::str text, bool leading_space) {
    const Characters owner(text.ptr());
    const Text& view = owner.text();
    nb::list units;
    view.visit([&](const auto* characters) {
      syllables_.units(characters, view.length(), leading_space,
                       [&](size_t start, size_t end) { units.append(unit(characters + start, end - start)); });
    });
    return units;
  }

  // The end of each unit, in characters.
  Array64 ends(nb::str text, bool leading_space) const {
    const Characters owner(text.ptr());
    const Text& view = owner.text();
    std::vector<int64_t> ends;
    {
      nb::gil_scoped_release release;
      view.visit([&](const auto* characters) {
        syllables_.units(characters, view.length(), leading_space,
                         [&](size_t, size_t end) { ends.push_back(static_cast<int64_t>(end)); });
      });
    }
    return to_array<Array64>(std::move(ends));
  }

  // Unit → its count in words with counts. Words outside the scripts are left out unless `every_word`.
  nb::typed<nb::dict, nb::str, int> count_units(ByteStrings words, Numbers counts, bool every_word) const {
    WordCounter counter;
    Scratch scratch;
    each_word(words, counts, [&](const std::vector<uint32_t>& word, int64_t count) {
      if (every_word || syllables_.script_of(word.data(), word.size()) >= 0)
        syllables_.count_units(word, count, scratch, counter);
    });
    nb::dict result;
    counter.sorted([&](const uint8_t* unit, size_t size, int64_t count) { result[utf8_to_str(unit, size)] = nb::int_(count); });
    return result;
  }

  // The number of running words that begin in each script.
  std::vector<int64_t> count_scripts(ByteStrings words, Numbers counts) const {
    std::vector<int64_t> totals(syllables_.size());
    each_word(words, counts, [&](const std::vector<uint32_t>& word, int64_t count) {
      const int script = syllables_.script_of(word.data(), word.size());
      if (script >= 0) totals[static_cast<size_t>(script)] += count;
    });
    return totals;
  }

 private:
  template <class Function>
  static void each_word(nb::handle words, nb::handle counts, Function&& function) {
    const NumberSequence times(counts);
    std::vector<uint32_t> points;
    size_t size = 0;
    const auto take = [&](Bytes word) {
      check_word(word);
      if (size++ >= times.numbers().size()) return;
      decode_all(word.data(), word.size(), points);
      function(points, times.numbers()[size - 1]);
    };
    if (WordArrays::in(words)) {
      const WordArrays arrays(words);
      for (size_t i = 0; i < arrays.size(); ++i) take(arrays[i]);
    } else {  // one at a time, to use little memory
      for (const nb::handle word : nb::iter(words)) take(bytes_of(word.ptr()));
    }
    check_lengths(size, times.numbers().size());
  }

  // The str of a unit. Text has few different units, so recent ones are cached: a look-up is faster than a new str.
  template <class Character>
  nb::object unit(const Character* characters, size_t n) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(characters);
    const size_t size = n * sizeof(Character);
    if (size > sizeof(Unit::bytes)) return characters_to_str(characters, n);
    Unit& recent = units_[hash_bytes(bytes, size, hash_seed()) % kUnits];
    if (recent.width != sizeof(Character) || recent.size != size || std::memcmp(recent.bytes, bytes, size) != 0) {
      recent.text = characters_to_str(characters, n);
      recent.width = sizeof(Character);
      recent.size = static_cast<uint8_t>(size);
      std::memcpy(recent.bytes, bytes, size);
    }
    return recent.text;
  }

  struct Unit {
    nb::object text;
    uint8_t width = 0;  // bytes per character
    uint8_t size = 0;   // bytes of all characters
    uint8_t bytes[22];
  };

  static constexpr size_t kUnits = 1 << 13;
  Syllables syllables_;
  std::vector<Unit> units_{kUnits};
};

}  // namespace

void bind_syllables(nb::module_& m) {
  nb::class_<PySyllables>(m, "Syllables")
      .def(nb::init<const std::vector<Tables>&, const Ranges&>(), nb::arg("scripts"), nb::arg("marks"))
      .def("tokenize", &PySyllables::tokenize, nb::arg("text"), nb::arg("leading_space"))
      .def("ends", &PySyllables::ends, nb::arg("text"), nb::arg("leading_space"))
      .def("count_units", &PySyllables::count_units, nb::arg("words"), nb::arg("counts"), nb::arg("every_word"))
      .def("count_scripts", &PySyllables::count_scripts, nb::arg("words"), nb::arg("counts"));
}

}  // namespace hf_sgpe
