// Characters and normalization.

#include "python.h"

namespace hf_sgpe {
namespace {

int class_of(uint32_t point) { return point < kCodePoints ? class_table()[point] : 0; }

bool has_surrogates(nb::str text) { return Characters(text.ptr()).text().has_surrogates(); }

// The pieces of a text, which can be normalized separately. NFC does not change the first, third, ... and last piece. It might
// change the others.
nb::typed<nb::list, nb::str> nfc_pieces(nb::str text) {
  const Characters characters(text.ptr());
  const Text& view = characters.text();
  std::vector<size_t> cuts = {0};
  const auto find = [&] { view.nfc_spans([&](size_t start, size_t end) { cuts.insert(cuts.end(), {start, end}); }); };
  if (view.length() < kWorthReleasing) {
    find();
  } else {
    nb::gil_scoped_release release;
    find();
  }
  cuts.push_back(view.length());
  const nb::object pieces = steal(PyList_New(static_cast<Py_ssize_t>(cuts.size() - 1)));
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const auto place = static_cast<Py_ssize_t>(i), start = static_cast<Py_ssize_t>(cuts[i]);
    const auto end = static_cast<Py_ssize_t>(cuts[i + 1]);
    NB_LIST_SET_ITEM(pieces.ptr(), place, steal(PyUnicode_Substring(text.ptr(), start, end)).release().ptr());
  }
  return nb::borrow<nb::list>(pieces);
}

}  // namespace

void bind_text(nb::module_& m) {
  nb::list canaries;
  for (const uint32_t point : kCanaries) canaries.append(point);
  m.attr("CANARIES") = nb::tuple(canaries);
  m.def("class_of", &class_of, nb::arg("point"));
  m.def("has_surrogates", &has_surrogates, nb::arg("text"));
  m.def("nfc_pieces", &nfc_pieces, nb::arg("text"));
}

}  // namespace hf_sgpe
