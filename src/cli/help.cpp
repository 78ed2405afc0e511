#include "cli/command.h"
#include "cli/options/flags.h"
#include "cli/terminal/console.h"
#include "draft/registry.h"
#include "tree/policy_registry.h"
#include "verify/verifier.h"

namespace talon {
namespace {

std::string entry_text(std::string_view name, std::string_view summary,
                       std::span<const Option> options) {
  std::string text = fmt::format("  {:<12} {}\n", name, summary);
  for (const Option& option : options) {
    const bool is_free = std::holds_alternative<FreeText>(option.kind);
    text += fmt::format("  {:<12}   {:<18} {}{}\n", "", usage_of(option), option.meaning,
                        is_free ? "" : ": " + expected_of(option.kind));
  }
  return text;
}

template <typename Entry>
std::string table_text(std::span<const Entry> entries) {
  std::string text;
  for (const Entry& entry : entries) text += entry_text(entry.name, entry.summary, entry.options);
  return text;
}

template <typename Entry>
Json table_json(std::span<const Entry> entries) {
  Json rows = Json::array();
  for (const Entry& entry : entries) {
    Json options = Json::array();
    for (const Option& option : entry.options) {
      options.push_back({{"name", option.name},
                         {"default", option.usual},
                         {"expected", expected_of(option.kind)},
                         {"meaning", option.meaning},
                         {"required", option.required}});
    }
    rows.push_back(
        {{"name", entry.name}, {"summary", entry.summary}, {"options", std::move(options)}});
  }
  return rows;
}

class Help : public Command {
 public:
  explicit Help(CLI::App& parent)
      : Command(parent.add_subcommand("help", "about the program, or about `methods`")),
        parent_(parent) {
    app_->add_option("topic", topic_, "methods: the drafters, policies and rules that exist")
        ->type_name("TOPIC");
    app_->add_flag("--json", json_, "print one JSON object (methods)");
  }

  int run() override {
    if (topic_.empty()) {
      write_output(parent_.help());
    } else if (topic_ == "methods") {
      json_ ? write_methods_json() : write_methods();
    } else {
      fail_choice("help: topic", {"methods"}, topic_);
    }
    return kExitDone;
  }

 private:
  static void write_methods() {
    std::string text = "Drafters (-d NAME[:key=value,...]) guess the next tokens:\n";
    text += entry_text("auto",
                       "the heads that belong to the model joined with suffix, else suffix: "
                       "what run and chat draft with unless they are told otherwise",
                       {});
    text += table_text(drafters());
    text += "\nPolicies (--policy NAME[:key=value,...]) say how much to guess:\n";
    text += table_text(policies());
    text += "\nRules (--verify NAME[:key=value,...]) say which guesses become text:\n";
    text += table_text(verifiers());
    write_output(text);
  }

  static void write_methods_json() {
    write_json({{"drafters", table_json(drafters())},
                {"policies", table_json(policies())},
                {"rules", table_json(verifiers())}});
  }

  CLI::App& parent_;
  std::string topic_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_help(CLI::App& parent) { return std::make_unique<Help>(parent); }

}  // namespace talon
