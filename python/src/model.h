#pragma once

#include "c/logits.h"
#include "values.h"

namespace talon::python {

/// While a model is opened: shows progress, and lets Ctrl-C through.
struct Opening {
  nb::object progress;
  talon_cancel* cancel = nullptr;
  nb::python_error* error = nullptr;

  static void tell(void* user, const char* what, std::size_t done, std::size_t total) {
    auto& self = *static_cast<Opening*>(user);
    const nb::gil_scoped_acquire gil = take_lock();
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
      const WithoutLock free;
      status = talon_model_load(source.c_str(), &options, &model_);
    }
    talon_cancel_free(opening.cancel);
    if (const std::unique_ptr<nb::python_error> error{opening.error}) {
      talon_model_free(model_);
      throw nb::python_error(std::move(*error));
    }
    check(status);
  }
  ~Model() {
    const WithoutLock free;
    talon_model_free(model_);
  }
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
    const talon_text_options options = text_options(special, start);
    std::int32_t* tokens = nullptr;
    std::size_t count = 0;
    talon_status status = TALON_OK;
    {
      const WithoutLock free;
      status = talon_tokenize(model_, text.data(), text.size(), &options, &tokens, &count);
    }
    check(status);
    return nb::cast(array_of(tokens, count));
  }

  nb::bytes detokenize(const Ids& ids, bool skip_special) const {
    const talon_text_options options = text_options(skip_special, true);
    char* text = nullptr;
    std::size_t bytes = 0;
    talon_status status = TALON_OK;
    {
      const WithoutLock free;
      status = talon_detokenize(model_, ids.data(), ids.size(), &options, &text, &bytes);
    }
    check(status);
    return text_of(text, bytes);
  }

  nb::bytes token_bytes(int token) const {
    char* text = nullptr;
    std::size_t bytes = 0;
    check(talon_token_bytes(model_, token, &text, &bytes));
    return text_of(text, bytes);
  }

  nb::bytes chat_text(const Messages& messages, const std::optional<std::string>& entries,
                      bool prompt, const std::optional<std::string>& variables) const {
    const talon_text_options options = chat_options(prompt, variables, entries);
    const auto all = messages_of(messages);
    char* text = nullptr;
    std::size_t bytes = 0;
    talon_status status = TALON_OK;
    {
      const WithoutLock free;
      status = talon_chat_text(model_, all.data(), all.size(), &options, &text, &bytes);
    }
    check(status);
    return text_of(text, bytes);
  }

  nb::object chat_tokenize(const Messages& messages, const std::optional<std::string>& entries,
                           bool prompt, const std::optional<std::string>& variables) const {
    const talon_text_options options = chat_options(prompt, variables, entries);
    const auto all = messages_of(messages);
    std::int32_t* tokens = nullptr;
    std::size_t count = 0;
    talon_status status = TALON_OK;
    {
      const WithoutLock free;
      status = talon_chat_tokenize(model_, all.data(), all.size(), &options, &tokens, &count);
    }
    check(status);
    return nb::cast(array_of(tokens, count));
  }

  /// Ctrl-C ends it after the forward under way.
  nb::object logits(const Ids& ids, std::size_t first) const {
    talon_model_info info = talon_model_info_empty();
    check(talon_model_describe(model_, &info));
    // For what is refused as too long no memory is taken.
    const bool fits = ids.size() <= static_cast<std::size_t>(info.context);
    const std::size_t rows = fits && ids.size() > first ? ids.size() - first : 0;
    const auto width = static_cast<std::size_t>(info.vocabulary);
    auto memory = std::make_unique_for_overwrite<float[]>(rows * width);
    talon_status status = TALON_OK;
    {
      const WithoutLock free;
      status = talon::model_logits(model_, ids.data(), ids.size(), first, memory.get(),
                                   rows * width, no_signal);
    }
    if (PyErr_Occurred()) throw nb::python_error();
    check(status);
    float* data = memory.release();
    nb::capsule owner(data, [](void* given) noexcept { delete[] static_cast<float*>(given); });
    return nb::cast(nb::ndarray<nb::numpy, float, nb::ndim<2>>(data, {rows, width}, owner));
  }

 private:
  /// Runs the handlers of signals that came; what one raises stays the interpreter's error.
  static bool no_signal() {
    const nb::gil_scoped_acquire gil = take_lock();
    return PyErr_CheckSignals() == 0;
  }

  talon_model* model_ = nullptr;
};

}  // namespace talon::python
