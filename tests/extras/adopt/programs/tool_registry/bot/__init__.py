from bot.main import agent
