// The part of the Python package that is compiled: include/talon.h as classes. What people use is
// python/talon/*.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "c/turns.h"
#include "talon.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Ids = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Messages = std::vector<std::pair<std::string, std::string>>;

/// Carries the status to Python, where talon/errors.py chooses the class.
struct StatusFailure {
  int status;
  std::string message;
};

void check(talon_status status) {
  if (status != TALON_OK) throw StatusFailure{status, talon_last_error()};
}

struct Free {
  void operator()(void* memory) const { talon_free(memory); }
};

nb::bytes text_of(char* memory, std::size_t bytes) {
  const std::unique_ptr<char, Free> owner(memory);
  return nb::bytes(memory, bytes);
}

/// A numpy array that owns the ids.
nb::ndarray<nb::numpy, std::int32_t, nb::ndim<1>> array_of(std::int32_t* tokens,
                                                           std::size_t count) {
  nb::capsule owner(tokens, [](void* memory) noexcept { talon_free(memory); });
  return {tokens, {count}, owner};
}

talon_text_options text_options(bool special, bool start, bool prompt,
                                const std::optional<std::string>& variables) {
  talon_text_options options = talon_text_default();
  options.parse_special = options.skip_special = special ? 1 : 0;
  options.add_start = start ? 1 : 0;
  options.add_generation_prompt = prompt ? 1 : 0;
  options.variables = variables ? variables->c_str() : nullptr;
  return options;
}

std::vector<talon_message> messages_of(const Messages& messages) {
  std::vector<talon_message> all;
  for (const auto& [role, content] : messages) all.push_back({role.c_str(), content.c_str()});
  return all;
}

/// While a model is opened: shows progress, and lets Ctrl-C through.
struct Opening {
  nb::object progress;
  talon_cancel* cancel = nullptr;
  nb::python_error* error = nullptr;

  static void tell(void* user, const char* what, std::size_t done, std::size_t total) {
    auto& self = *static_cast<Opening*>(user);
    const nb::gil_scoped_acquire gil;
    if (self.error) return;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (!self.progress.is_none()) self.progress(what, done, total);
    } catch (nb::python_error& error) {
      self.error = new nb::python_error(std::move(error));
      talon_cancel_request(self.cancel);
    }
  }
};

class Model {
 public:
  Model(const std::string& source, const std::optional<std::string>& models_folder, bool reference,
        int threads, int context, const std::optional<std::string>& weights, nb::object progress) {
    Opening opening{std::move(progress)};
    check(talon_cancel_new(&opening.cancel));
    talon_model_options options = talon_model_default();
    options.models_folder = models_folder ? models_folder->c_str() : nullptr;
    options.backend = reference ? TALON_BACKEND_REFERENCE : TALON_BACKEND_CPU;
    options.threads = threads;
    options.context = context;
    options.weights = weights ? weights->c_str() : nullptr;
    options.progress = Opening::tell;
    options.progress_user = &opening;
    options.cancel = opening.cancel;
    talon_status status = TALON_OK;
    {
      const nb::gil_scoped_release free;
      status = talon_model_load(source.c_str(), &options, &model_);
    }
    talon_cancel_free(opening.cancel);
    if (const std::unique_ptr<nb::python_error> error{opening.error}) {
      talon_model_free(model_);
      throw nb::python_error(std::move(*error));
    }
    check(status);
  }
  ~Model() { talon_model_free(model_); }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  talon_model* get() const { return model_; }

  nb::dict describe() const {
    talon_model_info info = talon_model_info_empty();
    check(talon_model_describe(model_, &info));
    nb::dict all;
    all["path"] = info.path;
    all["name"] = info.name;
    all["vocabulary"] = info.vocabulary;
    all["context"] = info.context;
    all["hidden"] = info.hidden;
    all["layers"] = info.layers;
    all["threads"] = info.threads;
    all["has_tokenizer"] = info.has_tokenizer != 0;
    all["has_chat_template"] = info.has_chat_template != 0;
    all["start_token"] = info.start_token;
    all["weight_bytes"] = info.weight_bytes;
    all["end_tokens"] =
        std::vector<std::int32_t>(info.end_tokens, info.end_tokens + info.end_token_count);
    return all;
  }

  nb::object tokenize(const std::string& text, bool special, bool start) const {
    const talon_text_options options = text_options(special, start, true, {});
    std::int32_t* tokens = nullptr;
    std::size_t count = 0;
    talon_status status = TALON_OK;
    {
      const nb::gil_scoped_release free;
      status = talon_tokenize(model_, text.data(), text.size(), &options, &tokens, &count);
    }
    check(status);
    return nb::cast(array_of(tokens, count));
  }

  nb::bytes detokenize(const Ids& ids, bool skip_special) const {
    const talon_text_options options = text_options(skip_special, true, true, {});
    char* text = nullptr;
    std::size_t bytes = 0;
    check(talon_detokenize(model_, ids.data(), ids.size(), &options, &text, &bytes));
    return text_of(text, bytes);
  }

  nb::bytes token_bytes(int token) const {
    char* text = nullptr;
    std::size_t bytes = 0;
    check(talon_token_bytes(model_, token, &text, &bytes));
    return text_of(text, bytes);
  }

  nb::bytes chat_text(const Messages& messages, bool prompt,
                      const std::optional<std::string>& variables) const {
    const talon_text_options options = text_options(true, true, prompt, variables);
    const auto all = messages_of(messages);
    char* text = nullptr;
    std::size_t bytes = 0;
    check(talon_chat_text(model_, all.data(), all.size(), &options, &text, &bytes));
    return text_of(text, bytes);
  }

  nb::object chat_tokenize(const Messages& messages, bool prompt,
                           const std::optional<std::string>& variables) const {
    const talon_text_options options = text_options(true, true, prompt, variables);
    const auto all = messages_of(messages);
    std::int32_t* tokens = nullptr;
    std::size_t count = 0;
    talon_status status = TALON_OK;
    {
      const nb::gil_scoped_release free;
      status = talon_chat_tokenize(model_, all.data(), all.size(), &options, &tokens, &count);
    }
    check(status);
    return nb::cast(array_of(tokens, count));
  }

  nb::object logits(const Ids& ids, std::size_t first) const {
    talon_model_info info = talon_model_info_empty();
    check(talon_model_describe(model_, &info));
    const std::size_t rows = ids.size() > first ? ids.size() - first : 0;
    const auto width = static_cast<std::size_t>(info.vocabulary);
    auto memory = std::make_unique<float[]>(rows * width);
    talon_status status = TALON_OK;
    {
      const nb::gil_scoped_release free;
      status =
          talon_model_logits(model_, ids.data(), ids.size(), first, memory.get(), rows * width);
    }
    check(status);
    float* data = memory.release();
    nb::capsule owner(data, [](void* given) noexcept { delete[] static_cast<float*>(given); });
    return nb::cast(nb::ndarray<nb::numpy, float, nb::ndim<2>>(data, {rows, width}, owner));
  }

 private:
  talon_model* model_ = nullptr;
};

nb::dict statistics_of(const talon_statistics& from) {
  nb::dict all;
  all["prompt_tokens"] = from.prompt_tokens;
  all["reused_tokens"] = from.reused_tokens;
  all["answer_tokens"] = from.answer_tokens;
  all["rounds"] = from.rounds;
  all["accepted_tokens"] = from.accepted_tokens;
  all["drafted_tokens"] = from.drafted_tokens;
  all["preemptions"] = from.preemptions;
  all["tau"] = from.tau;
  all["tokens_per_second"] = from.tokens_per_second;
  all["waiting_ms"] = from.waiting_ms;
  all["prefill_ms"] = from.prefill_ms;
  all["decode_ms"] = from.decode_ms;
  all["draft_ms"] = from.draft_ms;
  all["check_ms"] = from.check_ms;
  all["distortion"] = from.distortion;
  return all;
}

/// News of one round, kept until Python takes them.
struct News {
  std::uint64_t request;
  std::vector<std::int32_t> tokens;
  int accepted;
  std::string text;
  int finish;
  std::string error;
  std::vector<double> logprobs;
  std::vector<std::vector<std::pair<std::int32_t, double>>> top;
  talon_statistics statistics;
};

struct Round {
  std::uint64_t request;
  int round, position;
  std::vector<std::int32_t> tokens, parents;
  std::vector<float> log_p;
  std::vector<std::int32_t> accepted, emitted;
  double draft_ms, check_ms;
};

class Engine {
 public:
  Engine(const Model& model, const std::string& method, std::uint64_t cache_bytes,
         const std::vector<std::string>& head_folders,
         const std::optional<std::string>& costs_folder) {
    std::vector<const char*> folders;
    for (const std::string& folder : head_folders) folders.push_back(folder.c_str());
    const char* none = nullptr;
    talon_engine_options options = talon_engine_default();
    options.method = method.c_str();
    options.cache_bytes = cache_bytes;
    options.head_folders = folders.empty() ? &none : folders.data();
    options.head_folder_count = folders.size();
    options.costs_folder = costs_folder ? costs_folder->c_str() : nullptr;
    options.round = note_round;
    options.round_user = this;
    talon_status status = TALON_OK;
    {
      const nb::gil_scoped_release free;
      status = talon_engine_new(model.get(), &options, &engine_);
    }
    check(status);
  }
  ~Engine() {
    const nb::gil_scoped_release free;
    talon_engine_free(engine_);
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  std::string drafter() const { return talon_engine_drafter(engine_); }

  std::uint64_t submit(const Ids& prompt, const nb::dict& fields) {
    talon_request request = talon_request_default();
    request.prompt = prompt.data();
    request.prompt_count = prompt.size();
    Borrowed borrowed;
    for (const auto& [key, value] : fields) {
      const auto name = nb::cast<std::string>(key);
      try {
        set(request, borrowed, name, value);
      } catch (const nb::cast_error&) {
        const std::string found = nb::repr(value).c_str();
        throw StatusFailure{TALON_BAD_ARGUMENT,
                            name + ": expected " + expected(name) + ", found " + found};
      }
    }
    std::uint64_t id = 0;
    talon_status status = TALON_OK;
    {
      const nb::gil_scoped_release free;
      status = talon_engine_submit(engine_, &request, &id);
    }
    check(status);
    return id;
  }

  /// One forward, without the interpreter's lock.
  std::vector<News> step() {
    std::vector<News> all;
    talon_status status = TALON_OK;
    {
      const nb::gil_scoped_release free;
      status = talon_engine_step(engine_, note_news, &all);
    }
    check(status);
    return all;
  }

  void cancel(std::uint64_t id) { check(talon_engine_cancel(engine_, id)); }

  void keep_rounds(bool keep) { keeps_rounds_ = keep; }
  std::vector<Round> take_rounds() { return std::exchange(rounds_, {}); }

 private:
  /// What a request points to.
  struct Borrowed {
    std::string method;
    std::vector<std::string> stop_texts;
    std::vector<const char*> stop_pointers;
    std::vector<std::int32_t> bias_tokens, banned, end_tokens;
    std::vector<float> bias_values;
  };

  /// What `set` takes for a field.
  static const char* expected(const std::string& key) {
    if (key == "drafter") return "a text";
    if (key == "stop") return "a text or a list of texts";
    if (key == "banned" || key == "end_tokens") return "a list of token ids";
    if (key == "logit_bias") return "a dictionary of numbers by token id";
    if (key == "ignore_end" || key == "reuse_prefix") return "True or False";
    for (const char* real : {"temperature", "top_p", "min_p", "typical_p", "repetition_penalty",
                             "presence_penalty", "frequency_penalty", "deadline_ms"}) {
      if (key == real) return "a number";
    }
    return "a whole number that fits";
  }

  static void set(talon_request& request, Borrowed& to, const std::string& key, nb::handle value) {
    const auto whole = [&](auto& field) {
      field = nb::cast<std::remove_reference_t<decltype(field)>>(value);
    };
    if (key == "max_new") return whole(request.max_new);
    if (key == "min_new") return whole(request.min_new);
    if (key == "seed") return whole(request.seed);
    if (key == "choice") return whole(request.choice);
    if (key == "top_k") return whole(request.top_k);
    if (key == "temperature") return whole(request.temperature);
    if (key == "top_p") return whole(request.top_p);
    if (key == "min_p") return whole(request.min_p);
    if (key == "typical_p") return whole(request.typical_p);
    if (key == "repetition_penalty") return whole(request.repetition_penalty);
    if (key == "presence_penalty") return whole(request.presence_penalty);
    if (key == "frequency_penalty") return whole(request.frequency_penalty);
    if (key == "penalty_window") return whole(request.penalty_window);
    if (key == "priority") return whole(request.priority);
    if (key == "tenant") return whole(request.tenant);
    if (key == "logprobs") return whole(request.logprobs);
    if (key == "deadline_ms") return whole(request.deadline_ms);
    if (key == "ignore_end") return void(request.ignore_end = nb::cast<bool>(value) ? 1 : 0);
    if (key == "reuse_prefix") return void(request.reuse_prefix = nb::cast<bool>(value) ? 1 : 0);
    if (key == "drafter") {
      to.method = nb::cast<std::string>(value);
      request.method = to.method.c_str();
    } else if (key == "stop") {
      to.stop_texts = nb::cast<std::vector<std::string>>(value);
      for (const std::string& text : to.stop_texts) to.stop_pointers.push_back(text.c_str());
      request.stop_texts = to.stop_pointers.data();
      request.stop_text_count = to.stop_pointers.size();
    } else if (key == "banned") {
      to.banned = nb::cast<std::vector<std::int32_t>>(value);
      request.banned = to.banned.data();
      request.banned_count = to.banned.size();
    } else if (key == "end_tokens") {
      to.end_tokens = nb::cast<std::vector<std::int32_t>>(value);
      request.end_tokens = to.end_tokens.data();
      request.end_token_count = to.end_tokens.size();
    } else if (key == "logit_bias") {
      for (const auto& [token, bias] : nb::cast<nb::dict>(value)) {
        to.bias_tokens.push_back(nb::cast<std::int32_t>(token));
        to.bias_values.push_back(nb::cast<float>(bias));
      }
      request.bias_tokens = to.bias_tokens.data();
      request.bias_values = to.bias_values.data();
      request.bias_count = to.bias_tokens.size();
    } else {
      throw StatusFailure{TALON_BAD_ARGUMENT,
                          key + ": expected a field of a request, found another"};
    }
  }

  static int note_news(void* user, const talon_news* news) {
    News noted{news->request,
               {news->tokens, news->tokens + news->token_count},
               news->accepted,
               {news->text, news->text_bytes},
               news->finish,
               news->error,
               {},
               {},
               *news->statistics};
    for (std::size_t i = 0; news->token_logprobs && i < news->token_count; ++i) {
      noted.logprobs.push_back(news->token_logprobs[i]);
      auto& top = noted.top.emplace_back();
      for (std::size_t k = 0; k < news->top_count; ++k) {
        const talon_logprob& one = news->top[i * news->top_count + k];
        top.emplace_back(one.token, one.log_p);
      }
    }
    static_cast<std::vector<News>*>(user)->push_back(std::move(noted));
    return 0;
  }

  static void note_round(void* user, const talon_round* round) {
    auto& self = *static_cast<Engine*>(user);
    if (!self.keeps_rounds_) return;
    self.rounds_.push_back({round->request,
                            round->round,
                            round->position,
                            {round->tokens, round->tokens + round->node_count},
                            {round->parents, round->parents + round->node_count},
                            {round->log_p, round->log_p + round->node_count},
                            {round->accepted, round->accepted + round->accepted_count},
                            {round->emitted, round->emitted + round->emitted_count},
                            round->draft_ms,
                            round->check_ms});
  }

  talon_engine* engine_ = nullptr;
  std::vector<Round> rounds_;
  bool keeps_rounds_ = false;
};

}  // namespace

NB_MODULE(_talon, m) {
  nb::set_leak_warnings(false);  // a model may live as long as the interpreter
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const StatusFailure& failure) {
      const nb::object make = nb::module_::import_("talon.errors").attr("from_status");
      const nb::object error =
          make(failure.status, nb::bytes(failure.message.data(), failure.message.size()));
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
    }
  });
  m.def("version", &talon_version);
  m.def("finish_name", &talon_finish_name);
  m.def("status_name",
        [](int status) { return talon_status_name(static_cast<talon_status>(status)); });
  nb::class_<talon::Turns>(m, "Turns")
      .def(nb::init<>())
      .def("__enter__", &talon::Turns::lock, nb::call_guard<nb::gil_scoped_release>())
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
      .def("chat_text", &Model::chat_text, "messages"_a, "prompt"_a, "variables"_a.none())
      .def("chat_tokenize", &Model::chat_tokenize, "messages"_a, "prompt"_a, "variables"_a.none())
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
      .def("take_rounds", &Engine::take_rounds);
}
