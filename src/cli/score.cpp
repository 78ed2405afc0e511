#include <algorithm>
#include <cmath>
#include <numeric>

#include "cli/command.h"
#include "cli/options/flags.h"
#include "cli/options/opened_model.h"
#include "cli/options/prompt_options.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress_meter.h"
#include "core/error.h"
#include "model/text_pass.h"

namespace talon {
namespace {

/// Negative log-likelihood in nats of `token` under softmax(logits), sums in double.
/// REQUIRES: finite logits.
double negative_log_likelihood(std::span<const float> logits, TokenId token) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum) - logits[static_cast<std::size_t>(token)];
}

/// [[id, logit], ...] of the k largest logits, largest first, ties by smaller id.
Json top_of(std::span<const float> logits, int k) {
  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto before = [&](TokenId a, TokenId b) {
    const float x = logits[static_cast<std::size_t>(a)];
    const float y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const std::size_t count = std::min(static_cast<std::size_t>(k), ids.size());
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count), ids.end(),
                    before);
  Json top = Json::array();
  for (std::size_t i = 0; i < count; ++i)
    top.push_back({ids[i], logits[static_cast<std::size_t>(ids[i])]});
  return top;
}

class Score : public Command {
 public:
  explicit Score(CLI::App& parent)
      : Command(parent.add_subcommand("score", "how likely a text is, token by token")) {
    add_model_flag(*app_, model_);
    app_->add_option("-f,--file", file_, "the text, - for standard input")
        ->type_name("FILE")
        ->required();
    app_->add_flag("--ids", ids_, "the file holds token ids");
    add_int(*app_, "--top", top_, 0, 1 << 20,
            "give the K most probable tokens of every position (--json)");
    add_int(*app_, "--chunk", chunk_, 1, 1 << 16, "rows of one forward");
    add_backend_flags(*app_, model_);
    app_->add_flag("--json", json_, "print one JSON object");
  }

  int run() override {
    if (top_ > 0 && !json_) throw UsageError("--top: needs --json");
    const std::string text = read_text_file(file_);
    OpenedModel opened = open_model_with_cache(model_);
    require_text_model(opened);
    chunk_ = std::min({chunk_, opened.model.config.context, opened.cache->rows_at_once()});
    const std::vector<TokenId> tokens = read_tokens(opened, text);
    const InterruptGuard interrupt;
    score(opened, tokens, interrupt.stop());
    if (interrupt.stop().requested()) return kExitInterrupted;
    report(tokens);
    return kExitDone;
  }

 private:
  std::vector<TokenId> read_tokens(const OpenedModel& opened, const std::string& text) const {
    std::vector<TokenId> tokens;
    if (ids_) {
      tokens = parse_ids(fmt::format("--ids, {}", file_), text);
      check_ids(fmt::format("--ids, {}", file_), tokens, opened.model.config.vocabulary);
    } else {
      const Tokenizer& tokenizer = opened.require_tokenizer();
      tokens = encode_prompt(tokenizer, text, opened.model.config.context,
                             /*parse_special=*/false);
    }
    const auto context = static_cast<std::size_t>(opened.model.config.context);
    if (tokens.size() < 2 || tokens.size() > context) {
      fail("score {}: expected 2 to {} tokens (the context), found {}", file_, context,
           tokens.size());
    }
    const auto room = static_cast<std::size_t>(opened.most_positions());
    if (tokens.size() > room) {
      fail("score {}: the cache has room for {} tokens, found {}: give a larger --cache-mb", file_,
           room, tokens.size());
    }
    return tokens;
  }

  void score(OpenedModel& opened, std::span<const TokenId> tokens, const StopFlag& stop) {
    ProgressMeter meter("score");
    TextPass pass{.tokens = tokens, .chunk = static_cast<std::size_t>(chunk_), .stop = &stop};
    pass.ran = [&](std::size_t done, const View& logits) {
      score_rows(*opened.backend, tokens, done - static_cast<std::size_t>(logits.rows), logits);
      meter.update(done, tokens.size());
    };
    run_text(opened.model, *opened.cache, pass);
  }

  /// Scores what follows each of the tokens from `first` on that have `logits`.
  void score_rows(Backend& backend, std::span<const TokenId> tokens, std::size_t first,
                  const View& logits) {
    logits_.resize(static_cast<std::size_t>(logits.cols));
    for (int row = 0; row < logits.rows; ++row) {
      backend.download(logits.row_range(row, 1), logits_);
      const std::size_t next = first + static_cast<std::size_t>(row) + 1;
      require_finite(next - 1);
      if (next < tokens.size()) nll_.push_back(negative_log_likelihood(logits_, tokens[next]));
      if (top_ > 0) tops_.push_back(top_of(logits_, top_));
    }
  }

  /// Of the token at `position`: weights that are finite and huge make other logits.
  void require_finite(std::size_t position) const {
    for (const float logit : logits_) {
      if (std::isfinite(logit)) continue;
      fail("score {}: position {}: expected finite logits, found {}", file_, position,
           std::isnan(logit) ? "NaN" : "infinity");
    }
  }

  void report(std::span<const TokenId> tokens) const {
    const double mean =
        std::accumulate(nll_.begin(), nll_.end(), 0.0) / static_cast<double>(nll_.size());
    if (!json_) {
      write_output(
          fmt::format("{} tokens, mean negative log-likelihood {:.6f}, perplexity {:.4f}\n",
                      tokens.size(), mean, std::exp(mean)));
      return;
    }
    Json json = {{"tokens", tokens.size()},
                 {"nll_mean", mean},
                 {"perplexity", std::exp(mean)},
                 {"nll", nll_}};
    if (top_ > 0) json["top"] = tops_;
    write_json(json);
  }

  ModelOptions model_;
  std::string file_;
  bool ids_ = false;
  bool json_ = false;
  int top_ = 0;
  int chunk_ = 64;
  std::vector<double> nll_;
  Json tops_ = Json::array();
  std::vector<float> logits_;
};

}  // namespace

std::unique_ptr<Command> make_score(CLI::App& parent) { return std::make_unique<Score>(parent); }

}  // namespace talon
