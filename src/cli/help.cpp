#include "cli/command.h"
#include "cli/options/flags.h"
#include "cli/terminal/console.h"
#include "draft/registry.h"
#include "tree/policy_registry.h"
#include "verify/verifier.h"

namespace talon {
namespace {

std::string entry_text(std::string_view name, std::string_view summary, std::string_view options) {
  std::string text = fmt::format("  {:<12} {}\n", name, summary);
  if (!options.empty()) text += fmt::format("  {:<12}   {}\n", "", options);
  return text;
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
    text += entry_text("auto", "the heads that belong to the model joined with suffix, else suffix",
                       "what run and chat draft with unless they are told otherwise");
    for (const DrafterEntry& entry : drafters())
      text += entry_text(entry.name, entry.summary, entry.options);
    text += "\nPolicies (--policy NAME[:key=value,...]) say how much to guess:\n";
    for (const PolicyEntry& entry : policies())
      text += entry_text(entry.name, entry.summary, entry.options);
    text += "\nRules (--verify NAME[:key=value,...]) say which guesses become text:\n";
    for (const VerifierEntry& entry : verifiers())
      text += entry_text(entry.name, entry.summary, entry.options);
    write_output(text);
  }

  static void write_methods_json() {
    Json json = {
        {"drafters", Json::array()}, {"policies", Json::array()}, {"rules", Json::array()}};
    for (const DrafterEntry& entry : drafters()) {
      json["drafters"].push_back(
          {{"name", entry.name}, {"summary", entry.summary}, {"options", entry.options}});
    }
    for (const PolicyEntry& entry : policies()) {
      json["policies"].push_back(
          {{"name", entry.name}, {"summary", entry.summary}, {"options", entry.options}});
    }
    for (const VerifierEntry& entry : verifiers()) {
      json["rules"].push_back(
          {{"name", entry.name}, {"summary", entry.summary}, {"options", entry.options}});
    }
    write_json(json);
  }

  CLI::App& parent_;
  std::string topic_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_help(CLI::App& parent) { return std::make_unique<Help>(parent); }

}  // namespace talon
