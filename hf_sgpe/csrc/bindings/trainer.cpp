// Training of merges: learn_merges, learn_in_parity and build_unit_tier, and Sequences as input of training.

#include "trainer.h"

#include "python.h"

namespace hf_sgpe {
namespace {

using Pairs = std::vector<std::pair<Id, Id>>;

std::vector<std::string> tokens_of(nb::handle vocabulary) {
  std::vector<std::string> tokens;
  const Sequence items(vocabulary);
  for (size_t i = 0; i < items.size(); ++i) {
    const auto bytes = bytes_of(items[i]);
    tokens.emplace_back(bytes.begin(), bytes.end());
  }
  return tokens;
}

// A trainer and its input.
struct Learner {
  std::unique_ptr<NumberSequence> counts;
  Trainer trainer;
};

template <class Words>
Learner learner_of(const std::vector<std::string>& tokens, TieBreak tie_break, Words&& words, size_t symbols,
                   nb::handle counts) {
  auto numbers = std::make_unique<NumberSequence>(counts);
  check_lengths(words.size(), numbers->numbers().size());
  Trainer trainer(tokens, tie_break, numbers->numbers());
  trainer.reserve(symbols);
  for (size_t i = 0; i < words.size(); ++i) {
    const auto& word = words[i];
    trainer.add_word(word.data(), word.size());
  }
  return {std::move(numbers), std::move(trainer)};
}

// The ids, or bytes, of each item of an iterable.
class IdSequence {
 public:
  explicit IdSequence(nb::handle words) : words_(words) {}
  size_t size() const { return words_.size(); }
  const std::vector<int64_t>& operator[](size_t i) {
    ids_.clear();
    if (PyBytes_Check(words_[i])) {
      const Bytes bytes = bytes_of(words_[i]);
      ids_.assign(bytes.begin(), bytes.end());
    } else {
      const Sequence word(words_[i]);
      for (size_t j = 0; j < word.size(); ++j) ids_.push_back(number_of(word[j]));
    }
    return ids_;
  }

 private:
  Sequence words_;
  std::vector<int64_t> ids_;
};

Learner learner_of(const std::vector<std::string>& tokens, TieBreak tie_break, nb::handle words, nb::handle counts) {
  if (Sequences* sequences = nullptr; nb::try_cast<Sequences*>(words, sequences) && sequences)
    return learner_of(tokens, tie_break, *sequences, sequences->symbols(), counts);
  if (WordArrays::in(words)) {
    const WordArrays arrays(words);
    return learner_of(tokens, tie_break, arrays, arrays.bytes(), counts);
  }
  return learner_of(tokens, tie_break, IdSequence(words), 0, counts);
}

// The function to call at each merge: the caller's, or else an occasional check for Ctrl-C.
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

Pairs learn_merges(nb::handle words, nb::handle counts, nb::handle vocabulary, const Pairs& merged, int64_t num_merges,
                    const std::string& tie_break, int64_t min_frequency, nb::object on_merge) {
  Learner learner = learner_of(tokens_of(vocabulary), tie_break_of(tie_break), words, counts);
  nb::gil_scoped_release release;
  return learner.trainer.learn(merged, static_cast<size_t>(std::max<int64_t>(num_merges, 0)), min_frequency, callback(on_merge));
}

Pairs learn_from_languages(nb::handle languages, nb::handle held_out, nb::handle vocabulary, int64_t num_merges,
                            const std::string& tie_break, int64_t min_frequency, nb::object on_merge) {
  const std::vector<std::string> tokens = tokens_of(vocabulary);
  std::vector<std::unique_ptr<NumberSequence>> counts;
  const auto trainers_of = [&](nb::handle texts) {
    std::vector<Trainer> trainers;
    const Sequence items(texts);
    for (size_t i = 0; i < items.size(); ++i) {
      const Sequence words_and_counts(items[i]);
      if (words_and_counts.size() != 2) throw nb::value_error("a language is its words and their counts");
      Learner learner = learner_of(tokens, tie_break_of(tie_break), words_and_counts[0], words_and_counts[1]);
      counts.push_back(std::move(learner.counts));
      trainers.push_back(std::move(learner.trainer));
    }
    return trainers;
  };
  std::vector<Trainer> learning = trainers_of(languages), measured = trainers_of(held_out);
  check_lengths(learning.size(), measured.size());
  nb::gil_scoped_release release;
  return learn_in_parity(learning, measured, static_cast<size_t>(std::max<int64_t>(num_merges, 0)), min_frequency,
                         callback(on_merge), static_cast<Id>(tokens.size()));
}

Pairs build_unit_tier(ByteStrings units) {
  UnitTier tier;
  const Sequence items(units);
  for (size_t i = 0; i < items.size(); ++i) {
    const auto unit = bytes_of(items[i]);
    tier.add(unit.data(), unit.size());
  }
  return tier.merges();
}

std::vector<Id> item(Sequences& sequences, size_t i) {
  if (i >= sequences.size()) throw nb::index_error();
  return sequences[i];
}

nb::typed<nb::iterator, std::vector<Id>> iterate(nb::handle sequences) {
  return nb::borrow<nb::iterator>(steal(PySeqIter_New(sequences.ptr())));
}

// All ids joined, and the end of each sequence.
std::tuple<Array32, Array64> arrays(Sequences& sequences) {
  std::vector<Id> ids;
  std::vector<int64_t> ends;
  ends.reserve(sequences.size());
  for (size_t i = 0; i < sequences.size(); ++i) {
    const std::vector<Id>& one = sequences[i];
    ids.insert(ids.end(), one.begin(), one.end());
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
