// Scanner and Neighbours: splitting texts into words.

#include "scanner.h"

#include "neighbours.h"
#include "python.h"

namespace hf_sgpe {
namespace {

template <class Cutter>
nb::typed<nb::list, nb::str> split(const Cutter& cutter, nb::str text) {
  const nb::object utf8 = steal(PyUnicode_AsUTF8String(text.ptr()));  // raises for a lone surrogate
  const auto bytes = bytes_of(utf8.ptr());
  nb::list words;
  cutter.words(bytes.data(), bytes.size(), [&](const uint8_t* word, size_t size) { words.append(utf8_to_str(word, size)); });
  return words;
}

}  // namespace

void bind_scanner(nb::module_& m) {
  nb::class_<Scanner>(m, "Scanner")
      .def(nb::init<const std::string&, const std::vector<Ranges>&, const std::vector<Ranges>&,
                    const std::vector<std::pair<Ranges, size_t>>&>(),
           nb::arg("base"), nb::arg("scripts"), nb::arg("joiners"),
           nb::arg("steps") = std::vector<std::pair<Ranges, size_t>>())
      .def("split", &split<Scanner>, nb::arg("text"));
  nb::class_<Neighbours>(m, "Neighbours")
      .def(nb::init<const std::vector<std::pair<uint32_t, uint32_t>>&, const std::vector<uint32_t>&, bool>(), nb::arg("pairs"),
           nb::arg("known") = std::vector<uint32_t>(), nb::arg("keeps_unknown") = false)
      .def("split", &split<Neighbours>, nb::arg("text"));
}

}  // namespace hf_sgpe
