#include "cli/command.h"
#include "cli/options/flags.h"
#include "cli/options/opened_model.h"
#include "cli/options/prompt_options.h"
#include "cli/terminal/console.h"
#include "core/error.h"

namespace talon {
namespace {

class Tokenize : public Command {
 public:
  explicit Tokenize(CLI::App& parent)
      : Command(parent.add_subcommand("tokenize", "text to token ids, and back")) {
    add_model_flag(*app_, model_);
    add_prompt_flags(*app_, prompt_, false);
    add_system_flag(*app_, prompt_);
    app_->add_flag("--special", special_,
                   "recognise special tokens in the text (with --chat always)");
    app_->add_flag("--start", start_,
                   "put the start token first (with --chat where the model wants it)");
    app_->add_flag("--decode", decode_, "the input is token ids; print their text");
    app_->add_flag("--json", json_, "print one JSON object");
  }

  int run() override {
    if (decode_ && prompt_.chat) throw UsageError("--decode: cannot be combined with --chat");
    if (decode_ && start_) throw UsageError("--decode: cannot be combined with --start");
    const std::string text = prompt_text(prompt_);
    const Tokenizer tokenizer = open_tokenizer(source_of(model_));
    if (decode_) {
      print_text(tokenizer, text);
    } else {
      print_ids(tokenizer, encode(tokenizer, text));
    }
    return kExitDone;
  }

 private:
  /// Texts longer than any context are welcome; prompt_text() takes no more than kMostTextBytes.
  std::vector<TokenId> encode(const Tokenizer& tokenizer, const std::string& text) const {
    if (prompt_.chat) return encode_prompt(tokenizer, prompt_, text);
    return tokenizer.encode(text, {.parse_special = special_, .add_start = start_});
  }

  static std::vector<std::string> pieces_of(const Tokenizer& tokenizer,
                                            const std::vector<TokenId>& ids) {
    std::vector<std::string> pieces;
    for (const TokenId id : ids) pieces.push_back(tokenizer.piece_of(id));
    return pieces;
  }

  void print_ids(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) const {
    const std::vector<std::string> pieces = pieces_of(tokenizer, ids);
    if (json_) {
      write_json({{"ids", ids}, {"pieces", pieces}});
      return;
    }
    std::string lines;
    for (std::size_t i = 0; i < ids.size(); ++i)
      lines += fmt::format("{:>7}  {}\n", ids[i], pieces[i]);
    write_output(lines);
  }

  void print_text(const Tokenizer& tokenizer, const std::string& input) const {
    const std::vector<TokenId> ids = parse_ids("--decode", input);
    check_ids("--decode", ids, tokenizer.vocabulary_size());
    const std::string text = tokenizer.decode(ids, !special_);
    if (json_) {
      std::vector<std::string> texts;
      for (const TokenId id : ids) texts.push_back(tokenizer.bytes_of(id));
      write_json(
          {{"ids", ids}, {"pieces", pieces_of(tokenizer, ids)}, {"texts", texts}, {"text", text}});
    } else {
      write_output(text + "\n");
    }
  }

  ModelOptions model_;
  PromptOptions prompt_;
  bool special_ = false;
  bool start_ = false;
  bool decode_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_tokenize(CLI::App& parent) {
  return std::make_unique<Tokenize>(parent);
}

}  // namespace talon
