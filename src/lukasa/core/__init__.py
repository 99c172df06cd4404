"""Values and small tools that everything else uses; they import nothing of Lukasa but its errors."""
