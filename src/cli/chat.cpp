#include <algorithm>
#include <optional>
#include <string_view>

#include "cli/chat_history.h"
#include "cli/command.h"
#include "cli/options/draft_options.h"
#include "cli/options/opened_model.h"
#include "cli/options/sampler_options.h"
#include "cli/run_report.h"
#include "cli/terminal/answer_stream.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/line_editor.h"
#include "core/error.h"
#include "text/prompt.h"

namespace talon {
namespace {

constexpr int kLeastAnswer = 16;  // tokens of an answer that there must be room for

/// Around a text of several lines, as ollama has it.
constexpr std::string_view kQuotes = "\"\"\"";

constexpr const char* kHelp =
    "\"\"\"TEXT\"\"\"      a message of several lines\n"
    "/help           this list\n"
    "/reset          forget the conversation\n"
    "/system TEXT    set the system message and forget the conversation; without TEXT, none\n"
    "/stats          speed of the last answer\n"
    "/exit           leave (also Ctrl-D); Ctrl-C stops an answer\n";

/// A running chat: the loop from line to answer.
class ChatLoop {
 public:
  struct Options {
    std::string system;
    bool marks = false;
    bool reuse = true;
  };

  ChatLoop(OpenedModel& opened, const DecodeSettings& decode, const AnswerOptions& answer,
           const Options& options)
      : opened_(opened),
        answer_options_(answer),
        history_(opened.require_tokenizer(), options.system, opened.model.config.context),
        answerer_(opened.model, *opened.cache, opened.tokenizer_or_null(), decode),
        options_(options) {}

  int run() {
    std::string line;
    for (;;) {
      interrupt_.stop().clear();
      LineEditor::Result result = read_line("> ", line);
      const bool is_quoted = result == LineEditor::Result::line && line.starts_with(kQuotes);
      if (is_quoted) result = read_quoted(line);
      if (interrupt_.is_over()) return kExitInterrupted;
      if (result == LineEditor::Result::end) return kExitDone;
      if (result == LineEditor::Result::interrupted ||
          line.find_first_not_of(" \t\r\n") == std::string::npos)
        continue;
      const std::string command = line.substr(0, line.find(' '));
      if (!is_quoted && (command == "/exit" || command == "/quit")) return kExitDone;
      if (!is_quoted && line.front() == '/') {
        obey(line);
      } else {
        reply(line);
      }
      if (interrupt_.is_over()) return kExitInterrupted;
    }
  }

 private:
  LineEditor::Result read_line(const std::string& prompt, std::string& line) {
    const LineEditor::Result result = editor_.read(prompt, line);
    const bool is_line = result == LineEditor::Result::line;
    if (is_line && line.ends_with('\r')) line.pop_back();  // of a file from Windows
    return result;
  }

  /// text: a line that begins with kQuotes; becomes what stands between them, there or on the lines
  /// from there on, without the line breaks beside them. Throws Error for more than kMostTextBytes.
  LineEditor::Result read_quoted(std::string& text) {
    text.erase(0, kQuotes.size());
    std::string line;
    while (!text.ends_with(kQuotes)) {
      const LineEditor::Result result = read_line(". ", line);
      if (result == LineEditor::Result::end)
        note("chat: expected {} at the end of a text", kQuotes);
      if (result != LineEditor::Result::line) return result;
      text += '\n' + line;
      if (text.size() > kMostTextBytes)
        fail("chat: expected a text of at most {} bytes, found more", kMostTextBytes);
    }
    text.erase(text.size() - kQuotes.size());
    if (text.ends_with('\n')) text.pop_back();
    if (text.starts_with('\n')) text.erase(0, 1);
    return LineEditor::Result::line;
  }

  void obey(const std::string& line) {
    const std::size_t space = std::min(line.find(' '), line.size());
    const std::string command = line.substr(0, space);
    const std::string rest = line.substr(std::min(space + 1, line.size()));
    if (command == "/help") {
      note("{}", kHelp);
    } else if (command == "/reset") {
      history_.reset();
      note("the conversation is forgotten");
    } else if (command == "/system") {
      history_.set_system(rest);
      history_.reset();
      note("{}", rest.empty() ? "no system message" : "system message set");
    } else if (command == "/stats") {
      note("{}", last_ ? speed_text(*last_) + "; " + statistics_text(*last_) : "no answer yet");
    } else {
      note("no such command: {} (/help lists them)", command);
    }
  }

  void reply(const std::string& message) {
    history_.ask(message);
    try {
      const Answer answer = decode(make_request());
      history_.answer(answer.text, answer.tokens);
      last_ = answer;
    } catch (const OutputError&) {
      throw;
    } catch (const Error& error) {
      history_.answer("", {});
      note("talon: {}", error.what());  // the next message may do better
    }
  }

  Request make_request() {
    const int context = opened_.model.config.context;
    const int most = opened_.most_positions();
    const ChatHistory::Prompt prompt =
        history_.prompt(std::max(1, most - kLeastAnswer), interrupt_.stop());
    if (prompt.dropped_turns > 0) {
      note("note: the {} of {} tokens is full: the {} oldest {} forgotten",
           most < context ? "cache (--cache-mb)" : "context", most, prompt.dropped_turns,
           prompt.dropped_turns == 1 ? "turn is" : "turns are");
    }
    Request request;
    request.prompt = prompt.tokens;
    request.max_new =
        std::min(answer_options_.max_new, context - static_cast<int>(prompt.tokens.size()));
    request.sampler = answer_options_.sampler;
    request.seed = answer_options_.seed + static_cast<std::uint64_t>(history_.turns());
    request.stop_texts = answer_options_.stop_texts;
    request.reuse_prefix = options_.reuse;
    if (!answer_options_.ignore_end) request.end_tokens = opened_.end_tokens;
    return request;
  }

  Answer decode(const Request& request) {
    AnswerStream output(opened_.tokenizer_or_null(), options_.marks);
    const Answer answer = answerer_.decode(
        request, [&](const Progress& progress) { output.push(progress); }, &interrupt_.stop());
    output.finish();
    if (answer.finish == FinishReason::cancelled) note("(stopped)");
    if (answer.finish == FinishReason::length)
      note("(the answer reached its limit of {} tokens)", request.max_new);
    if (answer.finish == FinishReason::no_room)
      note("(the cache is full: give a larger --cache-mb)");
    return answer;
  }

  OpenedModel& opened_;
  const AnswerOptions& answer_options_;
  ChatHistory history_;
  Answerer answerer_;
  const Options options_;
  LineEditor editor_;
  InterruptGuard interrupt_;
  std::optional<Answer> last_;
};

class Chat : public Command {
 public:
  explicit Chat(CLI::App& parent) : Command(parent.add_subcommand("chat", "talk with a model")) {
    add_model_flag(*app_, model_);
    app_->add_option("--system", system_, "system message")->type_name("TEXT");
    add_answer_flags(*app_, answer_);
    add_drafter_flag(*app_, decode_);
    add_decode_flags(*app_, decode_);
    add_backend_flags(*app_, model_);
    app_->add_flag("--plain-text", plain_text_,
                   "do not mark accepted drafted tokens on a terminal (as with $NO_COLOR)");
    const auto reuse = [this](bool reuses) { return [this, reuses] { reuse_ = reuses; }; };
    app_->add_flag_callback("--reuse", reuse(true),
                            "take what earlier turns left in the cache (default)");
    app_->add_flag_callback("--no-reuse", reuse(false), "read earlier turns again")
        ->excludes("--reuse");
  }

  int run() override {
    split_drafter(*app_, decode_);
    OpenedModel opened = open_model_with_cache(model_);
    require_text_model(opened);
    const bool marks = output_shows_marks() && !plain_text_;
    use_places(decode_, opened, opened.cache->store().shape.type);
    choose_drafter(decode_);
    ChatLoop loop(opened, decode_, answer_, {system_, marks, reuse_});
    note("{}: /help lists the commands, Ctrl-D leaves", model_.model);
    if (marks && decode_.drafter != "none") note("{}", mark_legend());
    return loop.run();
  }

 private:
  ModelOptions model_;
  AnswerOptions answer_;
  DecodeSettings decode_;
  std::string system_;
  bool plain_text_ = false;
  bool reuse_ = true;
};

}  // namespace

std::unique_ptr<Command> make_chat(CLI::App& parent) { return std::make_unique<Chat>(parent); }

}  // namespace talon
