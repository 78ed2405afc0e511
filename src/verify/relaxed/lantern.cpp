#include <algorithm>
#include <mutex>
#include <optional>

#include "core/error.h"
#include "verify/checked_tree.h"
#include "verify/relaxed/lantern_rule.h"
#include "verify/rules.h"

namespace talon {
namespace {

class LanternRule : public Verifier {
 public:
  LanternRule(std::optional<CodeVectors> codes, TokenId first, const LanternSettings& settings,
              double budget)
      : vectors_(std::move(codes)), first_(first), settings_(settings), budget_(budget) {}
  std::string_view name() const override { return "lantern"; }
  bool lossless() const override { return false; }
  /// Asked where a rule is made for a model: there its table is made, and not for its name alone.
  int codes() const override { return table() ? table()->codes() : 0; }

  VerifyResult verify(const VerifyInput& input) const override {
    CheckedTree tree(input);
    PositionDecisions decisions(input);
    LanternSettings settings = settings_;
    if (!is_spent(input)) settings.table = table();
    if (input.sampler->options().temperature == 0)
      return verify_greedily(tree, decisions, settings);
    return LanternWalk(tree, decisions, settings).run();
  }

 private:
  bool is_spent(const VerifyInput& input) const {
    const double tokens = static_cast<double>(input.committed.size()) - input.prompt_length;
    return budget_ > 0 && input.distortion >= budget_ * tokens;
  }

  /// Null: nothing is relaxed.
  const NeighbourTable* table() const {
    std::call_once(is_made_, [this] {
      // One more, which the compatible rules remove.
      if (vectors_) table_.emplace(*vectors_, settings_.neighbours + 1, first_);
      vectors_.reset();
    });
    return table_ ? &*table_ : nullptr;
  }

  /// At temperature 0 a candidate is right if its relaxed probability is the largest; one that is
  /// not the sampler's own token is certainly another.
  static VerifyResult verify_greedily(CheckedTree& tree, PositionDecisions& decisions,
                                      const LanternSettings& settings) {
    VerifyResult result{{0}, 0};
    while (true) {
      const NodeId node = result.path.back();
      const Law<double> own = tree.target(node);  // certain of the sampler's token
      const NodeId next = right_child(tree, node, own, settings);
      if (next < 0) {
        end_path(tree, decisions, own, result);
        return result;
      }
      if (own.of(tree.token(next)) == 0) {
        result.distortion += 1;
        result.relaxed += 1;
      }
      result.path.push_back(next);
    }
  }

  static NodeId right_child(CheckedTree& tree, NodeId node, const Law<double>& own,
                            const LanternSettings& settings) {
    std::optional<Law<double>> p;  // once it is needed
    for (const NodeId child : tree.children(node)) {
      if (own.of(tree.token(child)) > 0) return child;
      if (!settings.table) continue;
      if (!p) p = tree.uncut_target(node);
      if (is_likeliest(tree.token(child), *p, settings) && !tree.forbids(node, tree.token(child)))
        return child;
    }
    return -1;
  }

  static bool is_likeliest(TokenId token, const Law<double>& p, const LanternSettings& settings) {
    const Relaxed relaxed =
        relax(token, p.of(token), settings, [&](TokenId other) { return p.of(other); });
    return std::ranges::all_of(p.entries,
                               [&](const auto& other) { return other.weight <= relaxed.p; });
  }

  mutable std::optional<CodeVectors> vectors_;  // until there is a table
  TokenId first_;                               // of code 0
  LanternSettings settings_;                    // but the table
  double budget_;                               // 0: none
  mutable std::once_flag is_made_;
  mutable std::optional<NeighbourTable> table_;
};

Removal removal_of(const std::string& compat) {
  if (compat == "llamagen") return Removal::draft;
  return compat == "lumina" ? Removal::target : Removal::relaxed;
}

std::unique_ptr<Verifier> make_lantern(Options& options) {
  LanternSettings settings;
  settings.neighbours = options.whole("k");
  settings.multiplicative = !options.is_given("delta");
  const double lambda = options.real("lambda"), delta = options.real("delta");
  if (options.is_given("delta") && options.is_given("lambda"))
    options.misuse("lambda", "either delta or lambda");
  settings.bound = settings.multiplicative ? lambda - 1 : delta;
  settings.removal = removal_of(options.text("compat"));
  const std::string& rows = options.text("rows");
  std::optional<bool> unit;
  if (rows != "used") unit = rows == "unit";
  const TokenId first = options.whole("first");
  const std::string& codebook = options.text("codebook");
  std::optional<CodeVectors> vectors;
  if (!codebook.empty()) vectors = read_code_vectors(codebook, unit);
  return std::make_unique<LanternRule>(std::move(vectors), first, settings, options.real("budget"));
}

}  // namespace

VerifierEntry lantern_rule() {
  return {.name = "lantern",
          .summary =
              "relaxed: accepts image codes with the probability of those that look like them "
              "(LANTERN, arXiv:2410.03355; LANTERN++, 2502.06352); reports by how much at most",
          .options = {{"codebook", FreeText{"PATH"}, "",
                       "of the tokenizer (safetensors or .pt); without it nothing is relaxed"},
                      {"k", WholeNumber{1, 65535}, "10", "nearest codes that may join"},
                      {"lambda", RealNumber{1, 1000}, "2", "LANTERN++: largest factor of p"},
                      {"delta", RealNumber{0, 1}, "0", "LANTERN: largest addition to p, instead"},
                      {"budget", RealNumber{0, 1}, "0",
                       "distortion a token, of the answer so far, from which on nothing is "
                       "relaxed; 0: none"},
                      {"first", WholeNumber{0, 1 << 24}, "0", "token of code 0"},
                      {"rows", OneOf{{"used", "unit", "stored"}}, "used",
                       "codes as the tokenizer uses them, divided by their norms, or as stored"},
                      {"compat", OneOf{{"none", "llamagen", "lumina"}}, "none",
                       "what a rejection takes along, as the paper's code for a model"}},
          .make = make_lantern};
}

}  // namespace talon
