// Learning merges: learn_merges and build_unit_tier, and the Sequences that training may begin with.

#include "trainer.h"

#include "python.h"

namespace hf_sgpe {
namespace {

using Merges = std::vector<std::pair<Id, Id>>;

void add_words(Trainer& trainer, const Sequences& words, const Sequence& counts) {
  check_lengths(words.size(), counts.size());
  trainer.reserve(words.ids(), words.size());
  for (size_t i = 0; i < words.size(); ++i) trainer.add_word(words[i].data(), words[i].size(), number_of(counts[i]));
}

void add_words(Trainer& trainer, const Sequence& words, const Sequence& counts) {
  check_lengths(words.size(), counts.size());
  std::vector<int64_t> ids;
  for (size_t i = 0; i < words.size(); ++i) {
    if (PyBytes_Check(words[i])) {
      const auto bytes = bytes_of(words[i]);
      trainer.add_word(bytes.data(), bytes.size(), number_of(counts[i]));
      continue;
    }
    const Sequence word(words[i]);
    ids.clear();
    for (size_t j = 0; j < word.size(); ++j) ids.push_back(number_of(word[j]));
    trainer.add_word(ids.data(), ids.size(), number_of(counts[i]));
  }
}

Merges learn_merges(nb::handle words, nb::handle counts, nb::handle vocabulary, const Merges& merged, int64_t num_merges,
                    const std::string& tie_break, int64_t min_frequency, nb::object on_merge) {
  std::vector<std::string> tokens;
  const Sequence token_items(vocabulary), count_items(counts);
  for (size_t i = 0; i < token_items.size(); ++i) {
    const auto bytes = bytes_of(token_items[i]);
    tokens.emplace_back(bytes.begin(), bytes.end());
  }
  Trainer trainer(std::move(tokens), tie_break_of(tie_break));
  if (Sequences* sequences = nullptr; nb::try_cast<Sequences*>(words, sequences) && sequences)
    add_words(trainer, *sequences, count_items);
  else
    add_words(trainer, Sequence(words), count_items);

  nb::gil_scoped_release release;
  size_t steps = 0;
  return trainer.learn(merged, static_cast<size_t>(std::max<int64_t>(num_merges, 0)), min_frequency,
                       [&](Id new_id, Id left, Id right, int64_t count) {
                         if (!on_merge.is_none()) {
                           nb::gil_scoped_acquire acquire;
                           on_merge(new_id, nb::make_tuple(left, right), count);
                         } else if (++steps % 256 == 0) {
                           nb::gil_scoped_acquire acquire;  // for Ctrl-C
                           if (PyErr_CheckSignals()) throw nb::python_error();
                         }
                       });
}

Merges build_unit_tier(ByteStrings units) {
  UnitTier tier;
  const Sequence items(units);
  for (size_t i = 0; i < items.size(); ++i) {
    const auto unit = bytes_of(items[i]);
    tier.add(unit.data(), unit.size());
  }
  return tier.merges();
}

std::vector<Id> item(const Sequences& sequences, size_t i) {
  if (i >= sequences.size()) throw nb::index_error();
  return {sequences[i].begin(), sequences[i].end()};
}

nb::typed<nb::iterator, std::vector<Id>> iterate(nb::handle sequences) {
  return nb::borrow<nb::iterator>(steal(PySeqIter_New(sequences.ptr())));
}

// All ids one after another, and where those of each sequence end.
std::tuple<Array32, Array64> arrays(const Sequences& sequences) {
  std::vector<Id> ids;
  std::vector<int64_t> ends;
  ids.reserve(sequences.ids());
  ends.reserve(sequences.size());
  for (size_t i = 0; i < sequences.size(); ++i) {
    ids.insert(ids.end(), sequences[i].begin(), sequences[i].end());
    ends.push_back(static_cast<int64_t>(ids.size()));
  }
  return {to_array<Array32>(std::move(ids)), to_array<Array64>(std::move(ends))};
}

}  // namespace

void bind_trainer(nb::module_& m) {
  nb::class_<Sequences>(m, "Sequences")
      .def("__len__", &Sequences::size)
      .def("__getitem__", &item, nb::arg("index"))
      .def("__iter__", &iterate)
      .def("arrays", &arrays);
  m.def("learn_merges", &learn_merges, nb::arg("words"), nb::arg("counts"), nb::arg("vocabulary"), nb::arg("merged"),
        nb::arg("num_merges"), nb::arg("tie_break"), nb::arg("min_frequency"), nb::arg("on_merge").none(),
        nb::sig("def learn_merges(words: collections.abc.Iterable[collections.abc.Iterable[int]],"
                " counts: collections.abc.Iterable[int], vocabulary: collections.abc.Iterable[bytes],"
                " merged: collections.abc.Sequence[tuple[int, int]], num_merges: int, tie_break: str, min_frequency: int,"
                " on_merge: collections.abc.Callable[[int, tuple[int, int], int], object] | None)"
                " -> list[tuple[int, int]]"));
  m.def("build_unit_tier", &build_unit_tier, nb::arg("units"));
}

}  // namespace hf_sgpe
