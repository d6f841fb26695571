// Vocabulary and ModelFile: tokens and merges, from Python or from a tokenizer.json.

#include "vocabulary.h"

#include <nanobind/stl/unordered_map.h>

#include <cstring>

#include "model_file.h"
#include "python.h"

namespace hf_sgpe {
namespace {

std::string_view view_of(PyObject* bytes) {
  const Bytes view = bytes_of(bytes);
  return {reinterpret_cast<const char*>(view.data()), view.size()};
}

nb::bytes bytes_from(std::string_view bytes) { return nb::bytes(bytes.data(), bytes.size()); }

using TokenDict = nb::typed<nb::dict, nb::bytes, int>;
using MergeList = nb::typed<nb::list, nb::typed<nb::tuple, nb::bytes, nb::bytes>>;

// `tokens`: the ids of all tokens. The results of the merges are tokens, too.
void make_vocabulary(PyVocabulary* self, TokenDict tokens,
                     nb::typed<nb::iterable, nb::typed<nb::tuple, nb::bytes, nb::bytes>> merges) {
  Vocabulary vocabulary;
  for (const auto& [token, id] : tokens) vocabulary.add(view_of(token.ptr()), nb::cast<Id>(id));
  const Sequence pairs(merges);
  for (size_t i = 0; i < pairs.size(); ++i) {
    const Sequence pair(pairs[i]);
    const auto place = [&](size_t part) { return vocabulary.find(view_of(pair[part])); };
    if (pair.size() != 2 || !vocabulary.add_merge(place(0), place(1)))
      throw std::invalid_argument("merge " + std::to_string(i) + " uses a token that is not in the vocabulary");
  }
  new (self) PyVocabulary(std::move(vocabulary));
}

std::optional<Id> find(const PyVocabulary& self, nb::bytes token) {
  const int32_t place = self.vocabulary().find(view_of(token.ptr()));
  return place == Vocabulary::kNowhere ? std::nullopt : std::optional(self.vocabulary().id(place));
}

std::optional<nb::bytes> token_with(const PyVocabulary& self, Id id) {
  const Vocabulary& vocabulary = self.vocabulary();
  const auto is_below = [&](int32_t place, Id wanted) { return vocabulary.id(place) < wanted; };
  const auto found = std::lower_bound(self.by_id().begin(), self.by_id().end(), id, is_below);
  if (found == self.by_id().end() || vocabulary.id(*found) != id) return std::nullopt;
  return bytes_from(vocabulary[*found]);
}

std::vector<nb::bytes> objects_of(const Vocabulary& vocabulary) {
  std::vector<nb::bytes> tokens;
  tokens.reserve(vocabulary.size());
  for (size_t place = 0; place < vocabulary.size(); ++place) tokens.push_back(bytes_from(vocabulary[static_cast<int32_t>(place)]));
  return tokens;
}

TokenDict ids(const PyVocabulary& self) {
  const Vocabulary& vocabulary = self.vocabulary();
  nb::dict ids;
  int32_t place = 0;
  for (const nb::bytes& token : objects_of(vocabulary)) ids[token] = vocabulary.id(place++);
  return nb::borrow<TokenDict>(ids);
}

MergeList merges(const PyVocabulary& self) {
  const Vocabulary& vocabulary = self.vocabulary();
  const std::vector<nb::bytes> tokens = objects_of(vocabulary);
  const nb::object pairs = steal(PyList_New(static_cast<Py_ssize_t>(vocabulary.merges().size())));
  Py_ssize_t rank = 0;
  for (const auto& merge : vocabulary.merges()) {
    const auto token = [&](int32_t place) { return tokens[static_cast<size_t>(place)].ptr(); };
    NB_LIST_SET_ITEM(pairs.ptr(), rank++, steal(PyTuple_Pack(2, token(merge.left), token(merge.right))).release().ptr());
  }
  return nb::borrow<MergeList>(pairs);
}

// The state for pickling: the tokens, their ends and ids, and the merges.
using State = std::tuple<nb::bytes, nb::bytes, nb::bytes, nb::bytes>;

template <class Item>
nb::bytes packed(const std::vector<Item>& items) {
  return nb::bytes(reinterpret_cast<const char*>(items.data()), items.size() * sizeof(Item));
}

template <class Item>
std::vector<Item> unpacked(const nb::bytes& bytes) {
  std::vector<Item> items(bytes.size() / sizeof(Item));
  if (!items.empty()) std::memcpy(items.data(), bytes.c_str(), items.size() * sizeof(Item));
  return items;
}

State state_of(const PyVocabulary& self) {
  const Vocabulary& vocabulary = self.vocabulary();
  std::string tokens;
  std::vector<uint64_t> ends;
  std::vector<Id> ids;
  for (int32_t place = 0; place < static_cast<int32_t>(vocabulary.size()); ++place) {
    tokens.append(vocabulary[place]);
    ends.push_back(tokens.size());
    ids.push_back(vocabulary.id(place));
  }
  return {bytes_from(tokens), packed(ends), packed(ids), packed(vocabulary.merges())};
}

void set_state(PyVocabulary& self, const State& state) {
  const auto& [tokens, ends, ids, merges] = state;
  Vocabulary vocabulary;
  size_t start = 0, place = 0;
  const std::vector<Id> id = unpacked<Id>(ids);
  for (const uint64_t end : unpacked<uint64_t>(ends)) {
    if (end < start || end > tokens.size() || place == id.size()) throw std::invalid_argument("damaged vocabulary");
    vocabulary.add({tokens.c_str() + start, static_cast<size_t>(end) - start}, id[place++]);
    start = static_cast<size_t>(end);
  }
  const auto size = static_cast<int32_t>(vocabulary.size());
  for (const auto& merge : unpacked<Vocabulary::Merge>(merges)) {
    const int32_t last = std::max({merge.left, merge.right, merge.result});
    if (last >= size || std::min({merge.left, merge.right, merge.result}) < 0)
      throw std::invalid_argument("damaged vocabulary");
    vocabulary.add_merge(merge);
  }
  new (&self) PyVocabulary(std::move(vocabulary));
}

using Ends = std::array<size_t, 4>;  // start and end of the vocabulary, then of the merges

// The places of a model's vocabulary and merges in a tokenizer.json. None for an unusual file.
std::optional<Ends> places_in(nb::bytes file) {
  ModelFile::Span vocab, merges;
  if (!ModelFile::locate(view_of(file.ptr()), vocab, merges)) return std::nullopt;
  return Ends{vocab.start, vocab.end, merges.start, merges.end};
}

std::optional<ModelFile> read(nb::bytes file, const Ends& places, bool by_characters) {
  const std::string_view text = view_of(file.ptr());
  if (!std::is_sorted(places.begin(), places.begin() + 2) || !std::is_sorted(places.begin() + 2, places.end()) ||
      std::max(places[1], places[3]) > text.size())
    throw std::invalid_argument("the places are not in the file");
  ModelFile model(by_characters);
  const auto part = [&](size_t first) { return text.substr(places[first], places[first + 1] - places[first]); };
  nb::gil_scoped_release release;
  return model.read(part(0), part(2)) ? std::optional(std::move(model)) : std::nullopt;
}

// None if merges use one of the strings that are left out, or if two tokens have the same id.
std::optional<PyVocabulary> finish(ModelFile& self, const std::vector<std::string>& left_out) {
  Vocabulary made;
  if (!self.finish(left_out, made)) return std::nullopt;
  PyVocabulary finished(std::move(made));
  const Vocabulary& vocabulary = finished.vocabulary();
  const auto same = [&](int32_t a, int32_t b) { return vocabulary.id(a) == vocabulary.id(b); };
  const auto& places = finished.by_id();
  if (std::adjacent_find(places.begin(), places.end(), same) != places.end()) return std::nullopt;
  return finished;
}

}  // namespace

void bind_vocabulary(nb::module_& m) {
  nb::class_<PyVocabulary>(m, "Vocabulary")
      .def("__init__", &make_vocabulary, nb::arg("tokens"), nb::arg("merges"))
      .def("find", &find, nb::arg("token"))
      .def("token_with", &token_with, nb::arg("id"))
      .def("ids", &ids)
      .def("merges", &merges)
      .def("__len__", [](const PyVocabulary& self) { return self.vocabulary().size(); })
      .def_prop_ro("number_of_merges", [](const PyVocabulary& self) { return self.vocabulary().merges().size(); })
      .def_prop_ro("highest_id", [](const PyVocabulary& self) {
        return self.by_id().empty() ? -1 : self.vocabulary().id(self.by_id().back());
      })
      .def("__getstate__", &state_of)
      .def("__setstate__", &set_state);
  nb::class_<ModelFile>(m, "ModelFile")
      .def_static("places_in", &places_in, nb::arg("file"))
      .def_static("read", &read, nb::arg("file"), nb::arg("places"), nb::arg("by_characters"))
      .def("find", &ModelFile::find, nb::arg("text"))
      .def("merged_among", &ModelFile::merged_among, nb::arg("strings"))
      .def("finish", &finish, nb::arg("left_out"))
      .def("__len__", &ModelFile::size)
      .def_prop_ro("others", &ModelFile::others);
}

}  // namespace hf_sgpe
