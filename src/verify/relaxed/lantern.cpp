#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "core/error.h"
#include "verify/checked_tree.h"
#include "verify/relaxed/lantern_rule.h"
#include "verify/rules.h"

namespace talon {
namespace {

class LanternRule : public Verifier {
 public:
  /// table: null: nothing is relaxed.
  LanternRule(std::shared_ptr<const NeighbourTable> table, const LanternSettings& settings)
      : table_(std::move(table)), settings_(settings) {
    settings_.table = table_.get();
  }
  std::string_view name() const override { return "lantern"; }
  bool lossless() const override { return false; }
  int codes() const override { return table_ ? table_->codes() : 0; }

  VerifyResult verify(const VerifyInput& input) const override {
    CheckedTree tree(input);
    PositionDecisions decisions(input);
    LanternSettings settings = settings_;
    settings.budget.distortion = input.distortion;
    settings.budget.tokens = static_cast<double>(input.committed.size()) - input.prompt_length;
    if (input.sampler->options().temperature == 0)
      return verify_greedily(tree, decisions, settings);
    return LanternWalk(tree, decisions, settings).run();
  }

 private:
  /// At temperature 0 a candidate is right if its relaxed probability is the largest; one that is
  /// not the sampler's own token is certainly another.
  static VerifyResult verify_greedily(CheckedTree& tree, PositionDecisions& decisions,
                                      LanternSettings settings) {
    const NeighbourTable* const table = settings.table;
    VerifyResult result{{0}, 0};
    while (true) {
      const NodeId node = result.path.back();
      settings.table = settings.budget.is_spent(result) ? nullptr : table;
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

  std::shared_ptr<const NeighbourTable> table_;  // or null
  LanternSettings settings_;                     // but the budget of an answer
};

Removal removal_of(const std::string& compat) {
  if (compat == "llamagen") return Removal::draft;
  return compat == "lumina" ? Removal::target : Removal::relaxed;
}

/// Of the codes that the options name, else of the model's. context: null: of none.
std::shared_ptr<const NeighbourTable> table_of(Options& options, const VerifierContext* context) {
  const std::string& used = options.text("table");
  std::optional<bool> unit;
  if (used != "used") unit = used == "unit";
  const TokenId first = options.whole("first");
  const int most = options.whole("k") + 1;  // the compatible rules remove one more
  std::filesystem::path file = options.text("codebook");
  if (file.empty() && context) {
    if (!context->codebook)
      options.misuse("codebook",
                     "the file of an image tokenizer, since none is known of the model");
    file = context->codebook();
  }
  if (file.empty()) return nullptr;
  const CodeVectors vectors = read_code_vectors(file, unit);
  if (!context) return nullptr;
  NeighbourTables own;
  return (context->tables ? *context->tables : own).get(vectors, most, first);
}

std::unique_ptr<Verifier> make_lantern(Options& options, const VerifierContext* context) {
  LanternSettings settings;
  settings.neighbours = options.whole("k");
  settings.multiplicative = !options.is_given("delta");
  const double lambda = options.real("lambda"), delta = options.real("delta");
  if (options.is_given("delta") && options.is_given("lambda"))
    options.misuse("lambda", "either delta or lambda");
  settings.bound = settings.multiplicative ? lambda - 1 : delta;
  settings.removal = removal_of(options.text("compat"));
  settings.budget.each = options.real("budget");
  return std::make_unique<LanternRule>(table_of(options, context), settings);
}

}  // namespace

VerifierEntry lantern_rule() {
  return {.name = "lantern",
          .summary =
              "relaxed: accepts image codes with the probability of those that look like them "
              "(LANTERN, arXiv:2410.03355; LANTERN++, 2502.06352); reports by how much at most",
          .options = {{"codebook", FreeText{"PATH"}, "",
                       "of the tokenizer (safetensors or .pt); else the model's own"},
                      {"k", WholeNumber{1, 65535}, "10", "nearest codes that may join"},
                      {"lambda", RealNumber{1, 1000}, "2", "LANTERN++: largest factor of p"},
                      {"delta", RealNumber{0, 1}, "0", "LANTERN: largest addition to p, instead"},
                      {"budget", RealNumber{0, 1}, "0",
                       "distortion a token, of the answer so far, from which on nothing is "
                       "relaxed; 0: none"},
                      {"first", WholeNumber{0, 1 << 24}, "0", "token of code 0"},
                      {"table", OneOf{{"used", "unit", "stored"}}, "used",
                       "codes as the tokenizer uses them, divided by their norms, or as stored"},
                      {"compat", OneOf{{"none", "llamagen", "lumina"}}, "none",
                       "what a rejection takes along, as the paper's code for a model"}},
          .make = make_lantern};
}

}  // namespace talon
