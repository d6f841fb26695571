// Decoder: ids → bytes.

#include "decoder.h"

#include "python.h"

namespace hf_sgpe {
namespace {

template <class Number>
using Input = nb::ndarray<const Number, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

class PyDecoder {
 public:
  // `tokens`: (id, bytes) in the order of ids. All ids are below `most_ids`.
  PyDecoder(const std::vector<std::pair<Id, nb::bytes>>& tokens, const std::vector<size_t>& special_ids, size_t most_ids)
      : decoder_(most_ids) {
    for (const auto& [id, token] : tokens) {
      const auto bytes = bytes_of(token.ptr());
      decoder_.add(id, bytes.data(), bytes.size());
    }
    for (const size_t id : special_ids) decoder_.set_special(id);
  }

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
  Decoder decoder_;
};

}  // namespace

void bind_decoder(nb::module_& m) {
  nb::class_<PyDecoder>(m, "Decoder")
      .def(nb::init<const std::vector<std::pair<Id, nb::bytes>>&, const std::vector<size_t>&, size_t>(), nb::arg("tokens"),
           nb::arg("special_ids"), nb::arg("most_ids"))
      .def("offsets", &PyDecoder::offsets, nb::arg("ids"), nb::arg("text"))
      .def("decode", &PyDecoder::decode, nb::arg("ids"), nb::arg("skip_special_tokens"),
           nb::sig("def decode(self, ids: collections.abc.Iterable[int], skip_special_tokens: bool) -> bytes | None"));
}

}  // namespace hf_sgpe
