#include "deviation.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace talon {
namespace {

/// Collects rows into a Deviation.
struct Collector {
  Deviation total;
  double difference = 0;
  int agreeing = 0;

  void nll(double found, double recorded) {
    total.nll_mean_abs += std::fabs(found - recorded);
    total.nll_max = std::max(total.nll_max, std::fabs(found - recorded));
    difference += found - recorded;
    ++total.rows;
  }
  void argmax(TokenId found, TokenId recorded, double margin) {
    agreeing += found == recorded;
    if (found != recorded) {
      total.largest_missed_margin = std::max(total.largest_missed_margin, margin);
    }
  }
  Deviation finish() {
    const double rows = std::max(total.rows, 1);
    total.nll_mean_abs /= rows;
    total.nll_mean_difference = difference / rows;
    total.argmax_agreement = agreeing / rows;
    return total;
  }
};

void compare_last_logits(const GoldenCase& c, std::span<const float> logits, const RowSummary& row,
                         Deviation& total) {
  const auto differ = [&](double found, double recorded) {
    total.last_logits_max = std::max(total.last_logits_max, std::fabs(found - recorded));
  };
  for (const auto& [id, logit] : c.last_logits) differ(logits[static_cast<std::size_t>(id)], logit);
  differ(row.log_sum_exp, c.log_sum_exp);
  differ(row.mean, c.mean);
  differ(row.deviation, c.deviation);
  differ(row.smallest, c.smallest);
}

}  // namespace

Deviation check_cases(ModelRun& run, std::span<const GoldenCase> cases) {
  Collector collect;
  for (const GoldenCase& c : cases) {
    std::vector<TokenId> ids = c.prompt;
    ids.insert(ids.end(), c.greedy.begin(), c.greedy.end() - 1);
    const int last = static_cast<int>(c.prompt.size()) - 1;
    run.run(ids, last, [&](int row, std::span<const float> logits) {
      const auto step = static_cast<std::size_t>(row - last);
      const RowSummary summary = summarise(logits);
      if (step == 0) compare_last_logits(c, logits, summary, collect.total);
      const TokenId recorded = c.greedy[step];
      collect.nll(summary.log_sum_exp - logits[static_cast<std::size_t>(recorded)], -c.log_p[step]);
      collect.argmax(summary.best, recorded, c.margin[step]);
    });
  }
  return collect.finish();
}

Deviation check_text(ModelRun& run, const GoldenText& text, int rows) {
  Collector collect;
  const auto ids = std::span(text.ids).first(static_cast<std::size_t>(rows));
  run.run(ids, 0, [&](int row, std::span<const float> logits) {
    const auto i = static_cast<std::size_t>(row);
    if (i >= text.nll.size()) return;
    const RowSummary summary = summarise(logits);
    const auto next = static_cast<std::size_t>(text.ids[i + 1]);
    collect.nll(summary.log_sum_exp - logits[next], text.nll[i]);
    collect.argmax(summary.best, text.argmax[i], text.margin[i]);
  });
  return collect.finish();
}

Deviation peer_deviation(const GoldenPeer& peer, const GoldenText& text, int rows) {
  Collector collect;
  const auto count = std::min(static_cast<std::size_t>(rows), text.nll.size());
  for (std::size_t i = 0; i < count; ++i) collect.nll(peer.text_nll[i], text.nll[i]);
  Deviation total = collect.finish();
  total.argmax_agreement = peer.argmax_agreement;
  return total;
}

void print(const std::string& what, const Deviation& d) {
  fmt::print(
      "{:<44} rows {:4}  |nll| mean {:.6f} max {:.6f}  mean nll {:+.6f}  argmax {:.4f} "
      "(missed margin {:.4f})  last logits {:.6f}\n",
      what, d.rows, d.nll_mean_abs, d.nll_max, d.nll_mean_difference, d.argmax_agreement,
      d.largest_missed_margin, d.last_logits_max);
}

}  // namespace talon
