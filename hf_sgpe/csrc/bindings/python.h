// What the bindings share: views of Python's objects, which need the GIL to be made, and results as Python's objects.

#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "text.h"

namespace hf_sgpe {

namespace nb = nanobind;

using Texts = nb::typed<nb::iterable, nb::str>;
using ByteStrings = nb::typed<nb::iterable, nb::bytes>;
using Numbers = nb::typed<nb::iterable, int>;

using Array8 = nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>;
using Array32 = nb::ndarray<nb::numpy, int32_t, nb::ndim<1>>;
using Array64 = nb::ndarray<nb::numpy, int64_t, nb::ndim<1>>;

void bind_text(nb::module_& m);
void bind_scanner(nb::module_& m);
void bind_counter(nb::module_& m);
void bind_trainer(nb::module_& m);
void bind_encoder(nb::module_& m);
void bind_decoder(nb::module_& m);
void bind_syllables(nb::module_& m);

// For texts of fewer characters, releasing the GIL costs more than it gains.
constexpr size_t kWorthReleasing = 4096;

// Takes over a new reference; null raises the error that Python has set.
inline nb::object steal(PyObject* object) {
  if (!object) throw nb::python_error();
  return nb::steal(object);
}

// ---------------------------------------------------------------- from Python

// The items of any iterable. It owns them, so that no other code can free them.
class Sequence {
 public:
  explicit Sequence(nb::handle iterable) : items_(steal(PySequence_Tuple(iterable.ptr()))) {}
  size_t size() const { return static_cast<size_t>(PyTuple_GET_SIZE(items_.ptr())); }
  PyObject* operator[](size_t i) const { return PyTuple_GET_ITEM(items_.ptr(), static_cast<Py_ssize_t>(i)); }

 private:
  nb::object items_;
};

// A view of a str. It may be read without the GIL as long as the str exists.
inline Text text_of(PyObject* text) {
  if (!PyUnicode_Check(text)) throw std::invalid_argument(std::string("expected str, not ") + Py_TYPE(text)->tp_name);
#if PY_VERSION_HEX < 0x030C0000
  if (PyUnicode_READY(text) < 0) throw nb::python_error();
#endif
  const auto length = static_cast<size_t>(PyUnicode_GET_LENGTH(text));
  return Text(PyUnicode_DATA(text), length, static_cast<int>(PyUnicode_KIND(text)), PyUnicode_IS_ASCII(text));
}

inline std::vector<Text> texts_of(const Sequence& items) {
  std::vector<Text> texts;
  texts.reserve(items.size());
  for (size_t i = 0; i < items.size(); ++i) texts.push_back(text_of(items[i]));
  return texts;
}

// A view of a bytes object, like `text_of`.
inline std::span<const uint8_t> bytes_of(PyObject* bytes) {
  if (!PyBytes_Check(bytes)) throw std::invalid_argument(std::string("expected bytes, not ") + Py_TYPE(bytes)->tp_name);
  return {reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(bytes)), static_cast<size_t>(PyBytes_GET_SIZE(bytes))};
}

// The same for words, which are text: raises Python's own error where they are not UTF-8.
inline std::span<const uint8_t> word_of(PyObject* bytes) {
  const std::span<const uint8_t> word = bytes_of(bytes);
  if (std::any_of(word.begin(), word.end(), [](uint8_t byte) { return byte >= 0x80; }))
    steal(PyUnicode_DecodeUTF8(reinterpret_cast<const char*>(word.data()), static_cast<Py_ssize_t>(word.size()), "strict"));
  return word;
}

inline std::string string_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

inline int64_t number_of(PyObject* number) {
  const long long value = PyLong_AsLongLong(number);
  if (value == -1 && PyErr_Occurred()) throw nb::python_error();
  return value;
}

inline void check_lengths(size_t words, size_t counts) {
  if (words != counts)
    throw std::invalid_argument("there are " + std::to_string(words) + " words and " + std::to_string(counts) + " counts");
}

// ---------------------------------------------------------------- to Python

// Moves the values into an array of NumPy's, without a copy.
template <class Array, class Values>
Array to_array(Values&& values) {
  auto* owned = new Values(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<Values*>(p); });
  return Array(const_cast<typename Array::Scalar*>(owned->data()), {owned->size()}, owner);
}

inline nb::object to_str(const uint8_t* data, size_t size) {
  return steal(PyUnicode_DecodeUTF8(reinterpret_cast<const char*>(data), static_cast<Py_ssize_t>(size), "replace"));
}

}  // namespace hf_sgpe
