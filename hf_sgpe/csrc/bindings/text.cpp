// Characters and normalization.

#include "python.h"

namespace hf_sgpe {
namespace {

int class_of(uint32_t point) { return point < kCodePoints ? class_table()[point] : 0; }

bool has_surrogates(nb::str text) { return Characters(text.ptr()).text().has_surrogates(); }

// The spans (start, end), in characters, that NFC might change. They can be normalized separately.
std::vector<std::pair<size_t, size_t>> nfc_spans(nb::str text) {
  const Characters characters(text.ptr());
  const Text& view = characters.text();
  std::vector<std::pair<size_t, size_t>> spans;
  const auto find = [&] { view.nfc_spans([&](size_t start, size_t end) { spans.emplace_back(start, end); }); };
  if (view.length() < kWorthReleasing) {
    find();
  } else {
    nb::gil_scoped_release release;
    find();
  }
  return spans;
}

}  // namespace

void bind_text(nb::module_& m) {
  nb::list canaries;
  for (const uint32_t point : kCanaries) canaries.append(point);
  m.attr("CANARIES") = nb::tuple(canaries);
  m.def("class_of", &class_of, nb::arg("point"));
  m.def("has_surrogates", &has_surrogates, nb::arg("text"));
  m.def("nfc_spans", &nfc_spans, nb::arg("text"));
}

}  // namespace hf_sgpe
