// The part of the Python package that is compiled: include/talon.h as classes. What people use is
// python/talon/*.py.
#include "engine.h"
#include "model.h"

using namespace talon::python;
using namespace nb::literals;

namespace {

void set_error(const StatusFailure& failure) {
  const nb::object make = nb::module_::import_("talon.errors").attr("from_status");
  const nb::object error =
      make(failure.status, nb::bytes(failure.message.data(), failure.message.size()));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
}

}  // namespace

NB_MODULE(_talon, m) {
  nb::set_leak_warnings(false);  // a model may live as long as the interpreter
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const StatusFailure& failure) {
      set_error(failure);
    } catch (const talon::UsageError& error) {  // of Turns
      set_error({TALON_BAD_ARGUMENT, error.what()});
    }
  });
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&end_interpreter));
  m.def("version", &talon_version);
  m.def("finish_name", &talon_finish_name);
  m.def("status_name",
        [](int status) { return talon_status_name(static_cast<talon_status>(status)); });
  nb::class_<talon::Turns>(m, "Turns")
      .def(nb::init<>())
      .def("__enter__", &talon::Turns::lock, nb::call_guard<WithoutLock>())
      .def("__exit__", [](talon::Turns& turns, const nb::args&) { turns.unlock(); });
  nb::class_<Model>(m, "Model")
      .def(nb::init<const std::string&, const std::optional<std::string>&, bool, int, int,
                    const std::optional<std::string>&, nb::object>(),
           "source"_a, "models_folder"_a.none(), "reference"_a, "threads"_a, "context"_a,
           "weights"_a.none(), "progress"_a.none())
      .def("describe", &Model::describe)
      .def("tokenize", &Model::tokenize, "text"_a, "special"_a, "start"_a)
      .def("detokenize", &Model::detokenize, "ids"_a, "skip_special"_a)
      .def("token_bytes", &Model::token_bytes, "token"_a)
      .def("chat_text", &Model::chat_text, "messages"_a, "entries"_a.none(), "prompt"_a,
           "variables"_a.none())
      .def("chat_tokenize", &Model::chat_tokenize, "messages"_a, "entries"_a.none(), "prompt"_a,
           "variables"_a.none())
      .def("logits", &Model::logits, "ids"_a, "first"_a);
  nb::class_<News>(m, "News")
      .def_ro("request", &News::request)
      .def_ro("tokens", &News::tokens)
      .def_ro("accepted", &News::accepted)
      .def_prop_ro("text",
                   [](const News& news) { return nb::bytes(news.text.data(), news.text.size()); })
      .def_ro("finish", &News::finish)
      .def_prop_ro("error",
                   [](const News& news) { return nb::bytes(news.error.data(), news.error.size()); })
      .def_ro("logprobs", &News::logprobs)
      .def_ro("top", &News::top)
      .def_prop_ro("statistics", [](const News& news) { return statistics_of(news.statistics); });
  nb::class_<Round>(m, "Round")
      .def_ro("request", &Round::request)
      .def_ro("round", &Round::round)
      .def_ro("position", &Round::position)
      .def_ro("tokens", &Round::tokens)
      .def_ro("parents", &Round::parents)
      .def_ro("log_p", &Round::log_p)
      .def_ro("accepted", &Round::accepted)
      .def_ro("emitted", &Round::emitted)
      .def_ro("draft_ms", &Round::draft_ms)
      .def_ro("check_ms", &Round::check_ms);
  nb::class_<Engine>(m, "Engine")
      .def(nb::init<const Model&, const std::string&, std::uint64_t,
                    const std::vector<std::string>&, const std::optional<std::string>&>(),
           "model"_a, "method"_a, "cache_bytes"_a, "head_folders"_a, "costs_folder"_a.none())
      .def_prop_ro("drafter", &Engine::drafter)
      .def("submit", &Engine::submit, "prompt"_a, "fields"_a)
      .def("step", &Engine::step)
      .def("cancel", &Engine::cancel, "id"_a)
      .def("keep_rounds", &Engine::keep_rounds, "keep"_a)
      .def("take_rounds", &Engine::take_rounds)
      .def("take_notes", &Engine::take_notes);
}
