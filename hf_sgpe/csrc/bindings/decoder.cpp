// Decoder: ids → bytes.

#include "decoder.h"

#include "python.h"

namespace hf_sgpe {
namespace {

template <class Number>
using Input = nb::ndarray<const Number, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

class PyDecoder {
 public:
  using Others = std::vector<std::pair<Id, nb::bytes>>;

  // Further tokens are decoded as well: `others` if no token of the vocabulary has their id, `added` in any case.
  PyDecoder(const PyVocabulary& tokens, const Others& others, const Others& added, const std::vector<size_t>& special_ids)
      : PyDecoder(ordered(tokens, others, added), special_ids) {}

  // The bytes of ids in a list, tuple or array. None for other types, or if an id is unknown.
  std::optional<nb::bytes> decode(nb::handle ids, bool skip_special_tokens) const {
    std::string bytes;
    bool known = true;
    const auto append = [&](int64_t id) { known = known && decoder_.append(id, skip_special_tokens, bytes); };
    Input<int32_t> narrow;
    Input<int64_t> wide;
    if (PyList_Check(ids.ptr()) || PyTuple_Check(ids.ptr())) {
      const Sequence items(ids);
      for (size_t i = 0; i < items.size() && known; ++i) {
        if (!PyLong_Check(items[i])) return std::nullopt;
        const long long id = PyLong_AsLongLong(items[i]);
        if (id == -1 && PyErr_Occurred()) PyErr_Clear();
        append(id);
      }
    } else if (nb::try_cast(ids, narrow, false)) {
      std::for_each(narrow.data(), narrow.data() + narrow.shape(0), append);
    } else if (nb::try_cast(ids, wide, false)) {
      std::for_each(wide.data(), wide.data() + wide.shape(0), append);
    } else {
      return std::nullopt;
    }
    return known ? std::optional(nb::bytes(bytes.data(), bytes.size())) : std::nullopt;
  }

  // Two numbers for each id: see Decoder::offsets.
  Array32 offsets(Input<int32_t> ids, nb::str text) const {
    const Characters characters(text.ptr());
    std::vector<int32_t> offsets;
    offsets.reserve(2 * ids.shape(0));
    decoder_.offsets(ids.data(), ids.shape(0), characters.text(), offsets);
    return to_array<Array32>(std::move(offsets));
  }

 private:
  using Token = std::pair<Id, std::string_view>;

  PyDecoder(const std::vector<Token>& tokens, const std::vector<size_t>& special_ids)
      : decoder_(tokens.empty() ? 0 : static_cast<size_t>(tokens.back().first) + 1) {
    for (size_t i = 0; i < tokens.size(); ++i)
      if (i + 1 == tokens.size() || tokens[i + 1].first != tokens[i].first) {  // the last of an id counts
        const auto& [id, token] = tokens[i];
        decoder_.add(id, reinterpret_cast<const uint8_t*>(token.data()), token.size());
      }
    for (const size_t id : special_ids) decoder_.set_special(id);
  }

  // All tokens in the order of ids, and of their precedence.
  static std::vector<Token> ordered(const PyVocabulary& tokens, const Others& others, const Others& added) {
    const Vocabulary& vocabulary = tokens.vocabulary();
    std::vector<Token> all;
    const auto append = [&](const Others& more) {
      for (const auto& [id, token] : more) all.emplace_back(id, std::string_view(token.c_str(), token.size()));
    };
    append(others);
    for (const int32_t place : tokens.by_id()) all.emplace_back(vocabulary.id(place), vocabulary[place]);
    append(added);
    std::stable_sort(all.begin(), all.end(), [](const Token& a, const Token& b) { return a.first < b.first; });
    return all;
  }

  Decoder decoder_;
};

}  // namespace

void bind_decoder(nb::module_& m) {
  nb::class_<PyDecoder>(m, "Decoder")
      .def(nb::init<const PyVocabulary&, const PyDecoder::Others&, const PyDecoder::Others&, const std::vector<size_t>&>(),
           nb::arg("vocabulary"), nb::arg("others"), nb::arg("added"), nb::arg("special_ids"))
      .def("offsets", &PyDecoder::offsets, nb::arg("ids"), nb::arg("text"))
      .def("decode", &PyDecoder::decode, nb::arg("ids"), nb::arg("skip_special_tokens"),
           nb::sig("def decode(self, ids: collections.abc.Iterable[int], skip_special_tokens: bool) -> bytes | None"));
}

}  // namespace hf_sgpe
