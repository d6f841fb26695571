// Learning merges: learn_merges, learn_in_parity and build_unit_tier, and the Sequences that training may begin with.

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

std::vector<std::string> tokens_of(nb::handle vocabulary) {
  std::vector<std::string> tokens;
  const Sequence items(vocabulary);
  for (size_t i = 0; i < items.size(); ++i) {
    const auto bytes = bytes_of(items[i]);
    tokens.emplace_back(bytes.begin(), bytes.end());
  }
  return tokens;
}

void add_counted(Trainer& trainer, nb::handle words, nb::handle counts) {
  const Sequence count_items(counts);
  if (Sequences* sequences = nullptr; nb::try_cast<Sequences*>(words, sequences) && sequences)
    add_words(trainer, *sequences, count_items);
  else
    add_words(trainer, Sequence(words), count_items);
}

// What is called at each merge: the caller's function, or a look now and then whether Ctrl-C was pressed.
Trainer::OnMerge callback(const nb::object& on_merge) {
  return [&on_merge, steps = size_t{0}](Id new_id, Id left, Id right, int64_t count) mutable {
    if (!on_merge.is_none()) {
      nb::gil_scoped_acquire acquire;
      on_merge(new_id, nb::make_tuple(left, right), count);
    } else if (++steps % 256 == 0) {
      nb::gil_scoped_acquire acquire;
      if (PyErr_CheckSignals()) throw nb::python_error();
    }
  };
}

Merges learn_merges(nb::handle words, nb::handle counts, nb::handle vocabulary, const Merges& merged, int64_t num_merges,
                    const std::string& tie_break, int64_t min_frequency, nb::object on_merge) {
  Trainer trainer(tokens_of(vocabulary), tie_break_of(tie_break));
  add_counted(trainer, words, counts);
  nb::gil_scoped_release release;
  return trainer.learn(merged, static_cast<size_t>(std::max<int64_t>(num_merges, 0)), min_frequency, callback(on_merge));
}

Merges learn_from_languages(nb::handle languages, nb::handle held_out, nb::handle vocabulary, int64_t num_merges,
                            const std::string& tie_break, int64_t min_frequency, nb::object on_merge) {
  const std::vector<std::string> tokens = tokens_of(vocabulary);
  const auto trainers_of = [&](nb::handle texts) {
    std::vector<Trainer> trainers;
    const Sequence items(texts);
    for (size_t i = 0; i < items.size(); ++i) {
      const Sequence words_and_counts(items[i]);
      if (words_and_counts.size() != 2) throw nb::value_error("a language is its words and their counts");
      trainers.emplace_back(tokens, tie_break_of(tie_break));
      add_counted(trainers.back(), words_and_counts[0], words_and_counts[1]);
    }
    return trainers;
  };
  std::vector<Trainer> learning = trainers_of(languages), measured = trainers_of(held_out);
  check_lengths(learning.size(), measured.size());
  nb::gil_scoped_release release;
  return learn_in_parity(learning, measured, static_cast<size_t>(std::max<int64_t>(num_merges, 0)), min_frequency,
                         callback(on_merge), static_cast<Id>(tokens.size()));
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
  m.def("learn_in_parity", &learn_from_languages, nb::arg("languages"), nb::arg("held_out"), nb::arg("vocabulary"),
        nb::arg("num_merges"), nb::arg("tie_break"), nb::arg("min_frequency"), nb::arg("on_merge").none(),
        nb::sig("def learn_in_parity(languages: collections.abc.Iterable[collections.abc.Iterable[object]],"
                " held_out: collections.abc.Iterable[collections.abc.Iterable[object]],"
                " vocabulary: collections.abc.Iterable[bytes], num_merges: int, tie_break: str, min_frequency: int,"
                " on_merge: collections.abc.Callable[[int, tuple[int, int], int], object] | None)"
                " -> list[tuple[int, int]]"));
  m.def("build_unit_tier", &build_unit_tier, nb::arg("units"));
}

}  // namespace hf_sgpe
