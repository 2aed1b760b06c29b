// A cost for people: its name, its value with a unit, and how far it can be trusted.
#pragma once

#include <string>

#include "engine/profile/profile.h"

namespace tandem {

std::string label_of(const CostField& field);  // its words without the unit
// "54.3 GB/s", "123 us": by the unit that the field's words end with.
std::string cost_text(const CostField& field, double value);
// "+-1.2 %", "+-40 % ?" of an uncertain one; empty: it was not judged.
std::string spread_text(const FigureSpread* figure);
// Which figures are uncertain and why, a line each, and who was busy meanwhile; empty: none.
std::string uncertain_text(const Profile& profile);

}  // namespace tandem
