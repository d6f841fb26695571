// Encoder: texts and words → ids.

#include "python.h"
#include "text_encoder.h"

namespace hf_sgpe {
namespace {

using List = nb::typed<nb::list, int>;
using Merges = std::vector<std::tuple<Id, Id, Id>>;    // left, right, result
using Tokens = std::vector<std::pair<nb::bytes, Id>>;

class PyEncoder {
 public:
  // `byte_ids`: the token of each byte. `unknown`: see Encoder::set_unknown.
  PyEncoder(std::vector<Id> byte_ids, const Merges& merges, std::optional<TextEncoder::Cutter> scanner,
            const std::vector<nb::bytes>& special_tokens, size_t memory_bytes, const Tokens& characters,
            const Tokens& added_tokens, int prefix, std::optional<std::pair<Id, bool>> unknown)
      : encoder_(words_of(std::move(byte_ids), merges, characters, memory_bytes, unknown),
                 scanner.value_or(TextEncoder::Cutter()), tokens_of(special_tokens), tokens_of(added_tokens),
                 space_of(prefix)) {}

  // The tokens and merges of a vocabulary. With `takes_words`, a word that is a token becomes this token regardless of the merges.
  PyEncoder(const PyVocabulary& tokens, std::vector<Id> byte_ids, bool by_characters, bool takes_words,
            std::optional<TextEncoder::Cutter> scanner, const std::vector<nb::bytes>& special_tokens, size_t memory_bytes,
            const Tokens& added_tokens, int prefix, std::optional<std::pair<Id, bool>> unknown)
      : encoder_(words_of(std::move(byte_ids), tokens.vocabulary(), by_characters, takes_words, memory_bytes, unknown),
                 scanner.value_or(TextEncoder::Cutter()), tokens_of(special_tokens), tokens_of(added_tokens),
                 space_of(prefix)) {}

  PyEncoder(const PyEncoder&) = delete;
  PyEncoder& operator=(const PyEncoder&) = delete;
  ~PyEncoder() {
    for (PyObject* id : id_objects_) Py_XDECREF(id);
  }

  // None if the text is left out: see TextEncoder::text.
  std::optional<List> encode(nb::str text, bool nfc, bool find_special) {
    Memories memories(*this, 1);
    const Characters characters(text.ptr());
    const Text& view = characters.text();
    Ids& ids = memories[0].text_ids;
    ids.clear();
    bool encoded;
    if (view.length() < kWorthReleasing) {
      encoded = encoder_.text(view, nfc, find_special, memories[0], ids);
    } else {
      nb::gil_scoped_release release;
      encoded = encoder_.text(view, nfc, find_special, memories[0], ids);
    }
    return encoded ? std::optional(to_list(ids.data(), ids.size())) : std::nullopt;
  }

  std::optional<Array32> encode_to_numpy(nb::str text, bool nfc, bool find_special) {
    Memories memories(*this, 1);
    const Characters characters(text.ptr());
    const Text& view = characters.text();
    Ids ids;
    bool encoded;
    {
      nb::gil_scoped_release release;
      encoded = encoder_.text(view, nfc, find_special, memories[0], ids);
    }
    return encoded ? std::optional(to_array<Array32>(std::move(ids))) : std::nullopt;
  }

  // Lists of ids, with None for each text that is left out.
  nb::typed<nb::list, std::optional<List>> encode_batch(Texts texts, bool nfc, bool find_special, size_t threads) {
    const TextSequence items(texts);
    Batch batch(items.texts(), threads);
    Memories memories(*this, batch.threads);
    const Buffers buffers(batch, memories);
    encode_all(items, nfc, find_special, batch, memories);
    const nb::object result = steal(PyList_New(static_cast<Py_ssize_t>(batch.size)));
    Py_ssize_t i = 0;
    for (const Part& part : batch.parts) {
      const Id* start = batch.ids[part.thread].data() + part.start;
      for (const auto& [length, encoded] : part.texts) {
        NB_LIST_SET_ITEM(result.ptr(), i++, (encoded ? nb::object(to_list(start, length)) : nb::none()).release().ptr());
        start += length;
      }
    }
    return nb::borrow<nb::list>(result);
  }

  // Ids, ends and the indices of texts that are left out: see Batch::Joined.
  std::tuple<Array32, Array64, std::vector<size_t>> encode_batch_to_numpy(Texts texts, bool nfc, bool find_special,
                                                                          size_t threads) {
    const TextSequence items(texts);
    Batch batch(items.texts(), threads);
    Memories memories(*this, batch.threads);
    std::optional<Buffers> buffers;
    if (batch.threads > 1) buffers.emplace(batch, memories);  // a single thread's ids are moved instead
    encode_all(items, nfc, find_special, batch, memories);
    Batch::Joined joined;
    {
      nb::gil_scoped_release release;
      joined = batch.join(threads);
    }
    return {to_array<Array32>(std::move(joined.ids)), to_array<Array64>(std::move(joined.ends)), std::move(joined.left_out)};
  }

  // The joined ids of words from the caller.
  List encode_words(Texts words) {
    Memories memories(*this, 1);
    const Sequence items(words);
    Ids& ids = memories[0].text_ids;
    ids.clear();
    for (size_t i = 0; i < items.size(); ++i) {
      const Characters characters(items[i]);
      const Utf8 word = characters.text().utf8(memories[0].scratch, false);
      if (word.size) encoder_.words().word(word.data, word.size, memories[0], ids);
    }
    return to_list(ids.data(), ids.size());
  }

  // The ids of each word separately, without the cache: training has each word only a few times.
  Sequences merge_words(ByteStrings words) {
    const auto items = std::make_shared<const WordSequence>(words);
    for (size_t i = 0; i < items->size(); ++i) check_word((*items)[i]);
    return Sequences(items->size(), items->bytes(), [this, items, memory = std::make_shared<Memory>()](size_t i, std::vector<Id>& ids) {
      encoder_.words().merge((*items)[i].data(), (*items)[i].size(), *memory);
      ids.swap(memory->ids);
    });
  }

  // Hits, misses, cached words and their bytes, of all memories that are not in use.
  std::tuple<uint64_t, uint64_t, uint64_t, uint64_t> memory_info() const {
    uint64_t hits = 0, misses = 0, words = 0, bytes = 0;
    for (const auto& memory : idle_) {
      hits += memory->look_ups - memory->misses;
      misses += memory->misses;
      words += memory->size();
      bytes += memory->bytes();
    }
    return {hits, misses, words, bytes};
  }

  void forget() { idle_.clear(); }

 private:
  // Borrows memories for some threads, and returns them at the end. Both hold the GIL, so a forked process has them
  // complete.
  class Memories {
   public:
    Memories(PyEncoder& encoder, size_t n) : encoder_(encoder) {
      // Reserve room for all, so that their return cannot fail.
      encoder.idle_.reserve(encoder.idle_.size() + (encoder.in_use_ += n));
      for (size_t i = 0; i < n; ++i) {
        if (encoder.idle_.empty()) {
          memories_.push_back(std::make_unique<Memory>());
        } else {
          memories_.push_back(std::move(encoder.idle_.back()));
          encoder.idle_.pop_back();
        }
      }
    }
    ~Memories() {
      for (auto& memory : memories_) {
        memory->trim();
        encoder_.idle_.push_back(std::move(memory));
      }
      encoder_.in_use_ -= memories_.size();
    }
    Memory& operator[](size_t i) { return *memories_[i]; }

   private:
    PyEncoder& encoder_;
    std::vector<std::unique_ptr<Memory>> memories_;
  };

  static Encoder words_of(std::vector<Id> byte_ids, const Merges& merges, const Tokens& characters,
                          size_t memory_bytes, std::optional<std::pair<Id, bool>> unknown) {
    Encoder words(std::move(byte_ids), memory_bytes);
    if (unknown) words.set_unknown(unknown->first, unknown->second);
    for (const auto& [left, right, result] : merges) words.add_merge(left, right, result);
    for (const auto& [character, id] : characters) {
      check_word(bytes_of(character.ptr()));
      words.add_character(string_of(character), id);
    }
    words.finish();
    return words;
  }

  static Encoder words_of(std::vector<Id> byte_ids, const Vocabulary& vocabulary, bool by_characters, bool takes_words,
                          size_t memory_bytes, std::optional<std::pair<Id, bool>> unknown) {
    Encoder words(std::move(byte_ids), memory_bytes);
    if (unknown) words.set_unknown(unknown->first, unknown->second);
    const auto id = [&](int32_t place) { return vocabulary.id(place); };
    for (const auto& [left, right, result] : vocabulary.merges()) words.add_merge(id(left), id(right), id(result));
    for (int32_t place = 0; place < static_cast<int32_t>(vocabulary.size()); ++place) {
      const std::string_view token = vocabulary[place];
      if (takes_words) words.add_whole(std::string(token), id(place));
      if (by_characters && is_character(token) && is_utf8(token)) words.add_character(std::string(token), id(place));
    }
    words.finish();
    return words;
  }

  static bool is_character(std::string_view token) {
    const auto is_inside = [](char byte) { return (byte & 0xC0) == 0x80; };
    return !token.empty() && std::all_of(token.begin() + 1, token.end(), is_inside);
  }

  static Space space_of(int prefix) {
    if (prefix < 0 || prefix > 3) throw std::invalid_argument("prefix must be 0, 1, 2 or 3");
    return static_cast<Space>(prefix);
  }

  // Lends the threads of a batch the buffers of their memories, because new pages cost as much time as filling them.
  class Buffers {
   public:
    Buffers(Batch& batch, Memories& memories) : batch_(batch), memories_(memories) {
      exchange();
      for (Ids& ids : batch.ids) ids.clear();
    }
    ~Buffers() { exchange(); }
    Buffers(const Buffers&) = delete;
    Buffers& operator=(const Buffers&) = delete;

   private:
    void exchange() {
      for (size_t i = 0; i < batch_.ids.size(); ++i) std::swap(batch_.ids[i], memories_[i].text_ids);
    }
    Batch& batch_;
    Memories& memories_;
  };

  void encode_all(const TextSequence& items, bool nfc, bool find_special, Batch& batch, Memories& memories) {
    nb::gil_scoped_release release;
    encoder_.batch(items.texts(), nfc, find_special, batch, [&](size_t thread) -> Memory& { return memories[thread]; });
  }

  // Reuses int objects, because creating one costs more than a look-up.
  List to_list(const Id* ids, size_t n) {
    const nb::object list = steal(PyList_New(static_cast<Py_ssize_t>(n)));
    constexpr size_t kAhead = 16;  // objects that are being fetched
    for (size_t i = 0; i < n; ++i) {
      if (i + kAhead < n && static_cast<size_t>(ids[i + kAhead]) < id_objects_.size())
        prefetch_line(id_objects_[static_cast<size_t>(ids[i + kAhead])]);
      const auto id = static_cast<size_t>(ids[i]);
      if (id >= id_objects_.size()) id_objects_.resize(id + 1);
      PyObject*& object = id_objects_[id];
      if (!object) object = steal(PyLong_FromLong(ids[i])).release().ptr();
      Py_INCREF(object);
      NB_LIST_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), object);
    }
    return nb::borrow<nb::list>(list);
  }

  TextEncoder encoder_;
  std::vector<std::unique_ptr<Memory>> idle_;
  size_t in_use_ = 0;
  std::vector<PyObject*> id_objects_;
};

}  // namespace

void bind_encoder(nb::module_& m) {
  nb::class_<PyEncoder>(m, "Encoder")
      .def(nb::init<std::vector<Id>, const Merges&, std::optional<TextEncoder::Cutter>,
                    const std::vector<nb::bytes>&, size_t, const Tokens&, const Tokens&, int,
                    std::optional<std::pair<Id, bool>>>(),
           nb::arg("byte_ids"), nb::arg("merges"), nb::arg("scanner").none(), nb::arg("special_tokens"),
           nb::arg("memory_bytes"), nb::kw_only(), nb::arg("characters") = Tokens(), nb::arg("added_tokens") = Tokens(),
           nb::arg("prefix") = 0, nb::arg("unknown") = std::nullopt, nb::keep_alive<1, 4>())
      .def(nb::init<const PyVocabulary&, std::vector<Id>, bool, bool, std::optional<TextEncoder::Cutter>,
                    const std::vector<nb::bytes>&, size_t, const Tokens&, int, std::optional<std::pair<Id, bool>>>(),
           nb::arg("vocabulary"), nb::arg("byte_ids"), nb::arg("by_characters"), nb::arg("takes_words"),
           nb::arg("scanner").none(), nb::arg("special_tokens"), nb::arg("memory_bytes"), nb::arg("added_tokens"),
           nb::arg("prefix"), nb::arg("unknown").none(), nb::keep_alive<1, 6>())
      .def("encode", &PyEncoder::encode, nb::arg("text"), nb::arg("nfc"), nb::arg("find_special"))
      .def("encode_to_numpy", &PyEncoder::encode_to_numpy, nb::arg("text"), nb::arg("nfc"), nb::arg("find_special"))
      .def("encode_batch", &PyEncoder::encode_batch, nb::arg("texts"), nb::arg("nfc"), nb::arg("find_special"),
           nb::arg("threads"))
      .def("encode_batch_to_numpy", &PyEncoder::encode_batch_to_numpy, nb::arg("texts"), nb::arg("nfc"),
           nb::arg("find_special"), nb::arg("threads"))
      .def("encode_words", &PyEncoder::encode_words, nb::arg("words"))
      .def("merge_words", &PyEncoder::merge_words, nb::arg("words"), nb::keep_alive<0, 1>())
      .def("memory_info", &PyEncoder::memory_info)
      .def("forget", &PyEncoder::forget);
}

}  // namespace hf_sgpe
