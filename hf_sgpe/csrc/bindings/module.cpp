// The module hf_sgpe._native. Its type stub is generated from the bindings.

#include "python.h"

NB_MODULE(_native, m) {
  nanobind::set_leak_warnings(false);  // scanners and tables are kept until the process ends
  m.doc() = "The kernels in C++: the same results as the readable ones, faster. Use them through hf_sgpe.kernels.";
  hf_sgpe::bind_text(m);
  hf_sgpe::bind_vocabulary(m);
  hf_sgpe::bind_scanner(m);
  hf_sgpe::bind_counter(m);
  hf_sgpe::bind_trainer(m);
  hf_sgpe::bind_encoder(m);
  hf_sgpe::bind_decoder(m);
  hf_sgpe::bind_syllables(m);
}
